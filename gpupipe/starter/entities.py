"""Keys of entities, such as persons, with several rows each, which a split must keep together.

A column is a key if its rows are alike: the target varies less within a value than between two values, by more than
chance. Shuffled folds then test on entities that were trained on, and are optimistic. Of integers that are not named as
a key, neighboring values are compared: those of a measurement are alike too. In addition the column must look like a
key rather than like a category whose values recur: by its name, or by many values, each in few rows, that are codes or
occur equally often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpupipe.random_streams import make_generator
from gpupipe.starter.columns import TIME_WORDS, TableColumns
from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.sample import level_numbers
from gpupipe.starter.useless_columns import KEY_WORDS, TIME_NAMES, are_integers, is_count, name_words
from gpupipe.table.blocks import Table
from gpupipe.typing import Array

MIN_NAMED_KEYS, MIN_KEYS = 10, 20
MIN_ROWS_PER_KEY = 2  # on average
MAX_NULLS = 0.05
# Of the rows per key: 1 for a geometric distribution, more for categories, of which some are common.
MAX_VARIATION = 1.2
MAX_DISPERSION = 0.1  # of the rows per key of a design with equal numbers of rows; 1 if rows are drawn at random
MIN_CODES = 0.95  # share of the texts that are one word with a digit
UNIFORM = 1.63  # Kolmogorov and Smirnov's limit at 1%, times the square root of the number of values
MIN_NAMED, MIN_DEVIATIONS = 3.5, 5.0  # of a column that is named as a key, and of others
MIN_CORRELATION = 0.05  # with a lower correlation within keys, shuffled folds are as good
MIN_REPEATED = 0.01  # of the rows
SHUFFLES, MAX_ROWS = 20, 200_000
ENTITIES = {
    "patient", "subject", "participant", "respondent", "person", "individual", "customer", "client", "user",
    "member", "household", "family", "student", "pupil", "employee", "worker", "driver", "player", "animal",
    "litter", "mother", "child", "rat", "mouse", "firm", "company", "device", "sensor", "machine", "engine",
    "vehicle", "session", "visitor", "account",
}  # fmt: skip
NUMBER_WORDS = {"no", "nr", "num", "number", "code", "name"}  # after the name of an entity
COUNT_WORDS = {"n", "number", "count", "num", "total"}  # before it
PLACES = {
    "zip", "zipcode", "postal", "postcode", "plz", "zone", "region", "district", "county", "state", "city", "area",
}  # fmt: skip


@dataclass(frozen=True)
class Entity:
    """A key whose rows are kept together, with the evidence."""

    name: str
    evidence: str


def find_entity(columns: TableColumns, table: Table, target: str, targets: Array) -> Entity | None:
    """Return the coarsest key of entities among the columns, or None.

    Of nested keys, such as patient and visit, the coarser one is chosen if it makes the finer ones alike. `table` has
    the encoded rows with a target; `targets` are those of `gpupipe.starter.series.comparable_targets`.
    """
    found: dict[str, tuple[Array, str]] = {}
    for name, column, codes in _candidates(columns, table, target):
        is_filled = codes >= 0
        values = targets[is_filled]
        is_ordered = column.holds != "text" and not is_named(name)
        deviations, correlation = likeness(codes[is_filled], values, is_ordered)
        evidence = f"{target} correlates by {correlation:.2f} within them, more than by chance"
        if deviations < (MIN_NAMED if is_named(name) else MIN_DEVIATIONS) or correlation < MIN_CORRELATION:
            constant = _constant_inputs(columns, table, name, target, codes)
            if not is_named(name) or len(constant) < 2 or 2 * len(constant) < len(columns.kept) - 2:
                continue
            evidence = f"within them, {', '.join(constant[:3])} do not vary"
        elif (
            not (is_named(name) or _has_equal_counts(column))
            and _is_constant(codes[is_filled], values)
            and not _constant_inputs(columns, table, name, target, codes)
        ):
            continue  # a finer label of the target
        found[name] = codes, f"Rows of {column.n_distinct:,} values of {name}: {evidence}"
    for name in sorted(found, key=lambda name: columns.facts[name].n_distinct):
        codes, evidence = found[name]
        finer = [other for other in found if other != name and _is_nested(found[other][0], codes)]
        if all(_joins(found[other][0], codes, targets) for other in finer):
            return Entity(name, evidence)
    return _identifier_of_repeats(columns)


def _identifier_of_repeats(columns: TableColumns) -> Entity | None:
    """Return the identifier of rows that are repeated, which keeps the copies together."""
    if columns.n_repeated < MIN_REPEATED * columns.n_rows:
        return None
    for name, column in columns.distinct_facts.items():
        is_identifier = is_named(name) or columns.dropped.get(name, "").startswith("identifier")
        if is_identifier and column.n_distinct == column.n_filled:
            return Entity(name, f"{columns.n_repeated:,} rows repeat earlier ones, which have the same {name}")
    return None


def is_named(name: str) -> bool:
    """Return whether a name is that of an entity or its key: ``patient``, ``userID``, ``account number``."""
    *before, last = name_words(name)
    if COUNT_WORDS.intersection(before[:1]):
        return False
    is_numbered = last in NUMBER_WORDS and bool(ENTITIES.intersection(before))
    return last in KEY_WORDS | ENTITIES or is_numbered or (last.endswith("id") and last[:-2] in ENTITIES)


def _candidates(columns: TableColumns, table: Table, target: str) -> Iterator[tuple[str, ColumnFacts, Array]]:
    """Yield the columns that look like keys, and the code of each row in the order of their values, -1 for null."""
    for name in columns.kept:
        column = columns.facts[name]
        if name == target or columns.kind(name) not in ("categorical", "numeric") or not _may_be_key(column):
            continue
        values = level_numbers(table, name)
        codes = np.unique(values, return_inverse=True)[1]
        codes[np.isnan(values)] = -1
        if len(codes) > MAX_ROWS:  # all rows of some keys
            chosen = make_generator(0, "starter", 1).random(codes.max() + 1) * len(codes) < MAX_ROWS
            codes = np.where((codes >= 0) & chosen[codes], codes, -1)
        yield name, column, codes


def _may_be_key(column: ColumnFacts) -> bool:
    """Return whether a column looks like a key with repeated values."""
    n_keys = column.n_distinct
    n_rows = column.n_filled
    words = set(name_words(column.name))
    is_number = column.holds in ("integer", "number")
    if n_keys < MIN_NAMED_KEYS or n_rows < MIN_ROWS_PER_KEY * n_keys or column.n_null > MAX_NULLS * column.n_rows:
        return False
    is_time = TIME_WORDS.search(column.name.lower()) or name_words(column.name)[-1] in TIME_NAMES
    if is_time or (is_number and (not are_integers(column) or is_count(column))):
        return False
    has_many_keys = n_keys**2 >= n_rows  # more keys than rows of a key
    if is_named(column.name):
        return has_many_keys or bool(ENTITIES.intersection(words))
    is_spread = np.std(column.counts) <= MAX_VARIATION * np.mean(column.counts)
    if n_keys < MIN_KEYS or not has_many_keys or not is_spread:
        return False
    if _has_equal_counts(column):
        return True
    return not PLACES & words and (_are_numbers_of_keys(column) if is_number else _are_codes(column.texts))


def _has_equal_counts(column: ColumnFacts) -> bool:
    return bool(np.var(column.counts) <= MAX_DISPERSION * np.mean(column.counts))


def _are_codes(texts: list[str]) -> bool:
    codes = [text for text in texts if any(map(str.isdigit, text)) and len(text.split()) == 1]
    return len(codes) >= MIN_CODES * len(texts)


def _are_numbers_of_keys(column: ColumnFacts) -> bool:
    """Return whether integers are spread evenly, and frequent at random, unlike those of a measurement."""
    values = column.distinct.to_numpy(zero_copy_only=False).astype(np.float64)
    order = values.argsort()
    low, high = column.range
    places, n = (values[order] - low) / (high - low), len(values)
    is_even = np.abs(places - (np.arange(n) + 0.5) / n).max() * n**0.5 <= UNIFORM
    counts = column.counts[order] - column.counts.mean()
    is_smooth = (counts[1:] * counts[:-1]).sum() > 3 / n**0.5 * (counts**2).sum()
    return bool(is_even and not is_smooth)


def likeness(codes: Array, targets: Array, is_ordered: bool = False) -> tuple[float, float]:
    """Return how much more alike rows of one key are than others: in deviations from chance, and as a correlation.

    The keys are integers in the order of their values; ordered ones are only compared with their neighbors. Targets
    have the shape (n_rows, n_targets). The correlation is the intraclass correlation of an analysis of variance.
    """
    codes = np.unique(codes, return_inverse=True)[1]
    counts, spread = np.bincount(codes), targets.var(axis=0).sum()
    if len(counts) < MIN_NAMED_KEYS or not spread:
        return 0.0, 0.0
    weights = 1 / (1 / counts[1:] + 1 / counts[:-1]) if is_ordered else counts * (len(counts) / (len(counts) - 1))

    def contrast(values: Array) -> float:
        """Return the mean squared difference of the means of keys, 1 by chance."""
        means = np.stack([np.bincount(codes, column) for column in values.T], axis=1) / counts[:, None]
        differences = np.diff(means, axis=0) if is_ordered else means - values.mean(axis=0)
        return float((weights * np.square(differences).sum(axis=1)).mean() / spread)

    generator, observed = make_generator(0, "starter", 2), contrast(targets)
    chance = [contrast(generator.permutation(targets)) for _ in range(SHUFFLES)]
    if is_ordered:
        size = 2 * weights.mean()
    else:
        size = (counts.sum() - np.square(counts).sum() / counts.sum()) / (len(counts) - 1)
    excess = observed - np.mean(chance)
    return float(excess / max(float(np.std(chance)), 1e-12)), float(min(1.0, excess / (size - 1))) if size > 1 else 0.0


def _is_constant(codes: Array, targets: Array) -> bool:
    first = np.unique(codes, return_index=True)[1]
    place = np.unique(codes, return_inverse=True)[1]
    return bool((targets == targets[first][place]).all())


def _constant_inputs(columns: TableColumns, table: Table, key: str, target: str, codes: Array) -> list[str]:
    """Return the inputs that vary, but not within a key."""
    is_filled, found = codes >= 0, []
    for name in columns.kept:
        if name not in (key, target) and table.schema[name].storage and columns.facts[name].n_distinct > 1:
            values = np.nan_to_num(level_numbers(table, name)[is_filled], nan=-1.0)
            if np.ptp(values) and _is_constant(codes[is_filled], values[:, None]):
                found.append(name)
    return found


def _is_nested(finer: Array, coarser: Array) -> bool:
    """Return whether each finer key belongs to one coarser key."""
    return bool(finer.max() > coarser.max() and _is_constant(finer, coarser[:, None]))


def _joins(finer: Array, coarser: Array, targets: Array) -> bool:
    """Return whether finer keys of one coarser key are alike, each counted once."""
    first = np.unique(finer, return_index=True)[1]
    codes = np.unique(finer, return_inverse=True)[1]
    means = np.stack([np.bincount(codes, column) for column in targets.T], axis=1) / np.bincount(codes)[:, None]
    deviations, correlation = likeness(coarser[first], means)
    return deviations >= MIN_NAMED and correlation >= MIN_CORRELATION

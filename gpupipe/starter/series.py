"""Targets that are series in time, of which shuffled folds test on rows between those that were trained on.

Rows are moments in order if each time has one row, or one row of each entity, in regular steps. If in addition the
target correlates with its previous value by more than chance, a random fold is predicted from its neighbors in time,
and the error of a forecast is underestimated (Bergmeir & Benítez 2012; Roberts et al. 2017). Rows of independent
customers have dates too, but neither regular steps nor such a correlation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gpupipe.starter.columns import TableColumns
from gpupipe.starter.power import level_codes
from gpupipe.starter.sample import level_numbers
from gpupipe.starter.useless_columns import TIME_NAMES, name_words
from gpupipe.table.blocks import Table
from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe.typing import Array

MIN_ROWS, MIN_SPLITS = 30, 10  # and times
MIN_TIMES = 20  # a panel of fewer times than this, and than entities, is one of entities
NEARLY_ALL = 0.99  # of the rows are the only ones of their time, or of time and entity
MIN_REGULAR, SAME_STEP = 0.5, 0.15  # share of the steps that are alike; months differ by a tenth
MIN_FILLED = 0.5  # of the combinations of time and entity
MAX_ENTITIES = 5_000
MIN_CORRELATION, MIN_DEVIATIONS = 0.2, 4.0  # with the previous value; 1 / √n_rows is one deviation
MAX_CLASSES = 20


@dataclass(frozen=True)
class Series:
    """The time of a series, with the evidence, and the columns of its entities."""

    time: str
    evidence: str
    entities: tuple[str, ...] = ()


def comparable_targets(y: Array, task: Task) -> Array:
    """Return ranks of numbers, or indicators of the most frequent classes, shape (n_rows, n_targets)."""
    if task in CLASSIFICATION:
        labels, counts = np.unique(y, return_counts=True)
        chosen = labels[counts.argsort()[::-1][:MAX_CLASSES]] if len(labels) > 2 else labels[1:]
        return np.stack([y == label for label in chosen], axis=1).astype(np.float64)
    from scipy.stats import rankdata

    return np.asarray(rankdata(y) / len(y))[:, None]


def find_series(columns: TableColumns, table: Table, target: str, y: Array, task: Task) -> Series | None:
    """Return the time by which the target is a series, or None; `table` has the encoded rows with a target, `y`."""
    if table.n_rows < MIN_ROWS:
        return None
    targets = comparable_targets(y, task)
    for name in columns.kept:
        if name == target or columns.facts[name].n_null or not is_time(columns, name):
            continue
        times = level_numbers(table, name)
        if task in CLASSIFICATION and not _has_classes_on_both_sides(times, y):
            continue
        if found := _series_of(columns, table, name, target, targets, times):
            return found
    return None


def is_time(columns: TableColumns, name: str) -> bool:
    """Return whether a column contains times, or numbers that its name calls a time: a year, a week."""
    is_named = columns.kind(name) == "numeric" and name_words(name)[-1] in TIME_NAMES
    return is_named or columns.kind(name) == "datetime"


def _has_classes_on_both_sides(times: Array, y: Array) -> bool:
    """Return whether the last fifth of the rows has all classes, and the rows before it too."""
    order = times.argsort(kind="stable")
    first = int(0.8 * len(order))
    return len(np.unique(y)) == len(np.unique(y[order[:first]])) == len(np.unique(y[order[first:]]))


def _series_of(
    columns: TableColumns, table: Table, name: str, target: str, targets: Array, times: Array
) -> Series | None:
    steps, n_rows = np.diff(np.unique(times)), len(times)
    if not len(steps):
        return None
    if (np.abs(steps / np.median(steps) - 1) <= SAME_STEP).mean() < MIN_REGULAR:
        return None  # such as the dates of customers
    if len(steps) + 1 >= NEARLY_ALL * n_rows:
        return _shown(name, target, lag_correlation(targets[times.argsort(kind="stable")]), n_rows)
    for names, codes in _entities(columns, table, name, target, times, len(steps) + 1):
        order = np.lexsort((times, codes))
        centered = targets - _means(codes, targets)[codes]
        correlation = lag_correlation(centered[order], codes[order])
        if found := _shown(name, target, correlation, n_rows, names):
            return found
    return None


def _shown(name: str, target: str, correlation: float, n_rows: int, entities: tuple[str, ...] = ()) -> Series | None:
    chance = MIN_DEVIATIONS / n_rows**0.5
    if correlation < max(MIN_CORRELATION, chance):
        return None
    of = f" of the same {' and '.join(entities)}" if entities else ""
    evidence = f"{target} correlates by {correlation:.2f} with its previous value{of} (by chance below {chance:.2f})"
    return Series(name, evidence, entities)


def lag_correlation(values: Array, codes: Array | None = None) -> float:
    """Return the correlation of the rows, in order of time, with the previous row of the same code."""
    values = values - values.mean(axis=0)
    products = (values[1:] * values[:-1]).sum(axis=1)
    if codes is not None:
        products = products[codes[1:] == codes[:-1]]
    spread = np.square(values).sum(axis=1).mean()
    return float(products.mean() / spread) if spread and len(products) else 0.0


def _entities(
    columns: TableColumns, table: Table, time: str, target: str, times: Array, n_times: int
) -> list[tuple[tuple[str, ...], Array]]:
    """Return the columns whose values, alone or in pairs, have one row at each time, and the code of each row."""
    singles: dict[str, Array] = {}
    for name in columns.kept:
        column = columns.facts[name]
        is_key = column.holds in ("text", "integer", "boolean") and 2 <= column.n_distinct <= MAX_ENTITIES
        if (
            is_key
            and not column.n_null
            and name not in (time, target)
            and columns.kind(name) not in ("datetime", "text")
        ):
            singles[name] = level_codes(level_numbers(table, name))
    moments = level_codes(times)
    found = []
    for names in [*((name,) for name in singles), *combinations(singles, 2)]:
        codes = singles[names[0]]
        if len(names) == 2:
            codes = level_codes(codes * (singles[names[1]].max() + 1) + singles[names[1]])
        n_entities = int(codes.max()) + 1
        is_long = n_times >= max(MIN_SPLITS, min(MIN_TIMES, n_entities))
        if (
            not is_long
            or len(times) < MIN_FILLED * n_entities * n_times
            or len(times) > n_entities * n_times / NEARLY_ALL
        ):
            continue
        if len(np.unique(codes * n_times + moments)) >= NEARLY_ALL * len(times):
            found.append((tuple(names), codes))
    return found


def _means(codes: Array, targets: Array) -> Array:
    sums = np.stack([np.bincount(codes, column) for column in targets.T], axis=1)
    return np.asarray(sums / np.bincount(codes)[:, None])

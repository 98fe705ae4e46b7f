"""Columns that are useless for a model: empty and constant columns, identifiers, split markers, free text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpupipe.names import count_noun
from gpupipe.starter.facts import ColumnFacts
from gpupipe.table.column_summary import FEW_LEVELS

HANDFUL = 5  # rows
NEARLY_EMPTY = 0.005
NEARLY_UNIQUE = 0.95
FEW_ROWS = 20  # with fewer, all values may differ by chance
MANY_ROWS = 1_000
MIN_LOW_SHARE = 0.75  # of the rows in the lower half of the range; keys and classes are spread evenly
# If 10 are expected, none occurs by chance in 1 of 20,000 tables; of others, the standard deviation is their root.
MIN_REPEATS, MANY_DEVIATIONS = 10, 5.0
FREE_TEXT = "free text"
MIN_WORDS_OF_TEXT = 4  # on average, for free text
KEY_WORDS = {"id", "ids", "uid", "uuid", "guid", "key", "pk"}
ID_WORDS = KEY_WORDS | {
    "code",
    "no",
    "nr",
    "num",
    "number",
    "index",
    "idx",
    "row",
}  # in names of columns without repeats
TIME_NAMES = {"time", "date", "year", "yr", "quarter", "month", "week", "day", "hour", "period", "t"}
PARTS = {
    "train": ("train", "training", "tr", "learn"),
    "test": ("test", "testing", "te", "holdout", "hold-out"),
    "valid": ("valid", "validation", "val", "dev", "eval"),
}


def find_useless_columns(facts: Mapping[str, ColumnFacts], known: set[str]) -> dict[str, str]:
    """Return the columns to drop, each with a short reason.

    `known`: columns with a declared kind: their texts are dates or numbers.
    """
    reasons = {name: _reason(column, name in known) for name, column in facts.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def _reason(column: ColumnFacts, is_known: bool) -> str:
    if reason := _too_little(column):
        return reason
    if part_levels(column):
        return f"split marker: {', '.join(column.texts)}"
    if column.holds == "text" and not is_known:
        return _too_much_text(column)
    return _number_of_a_row(column)


def _too_little(column: ColumnFacts) -> str:
    n_rows, n_filled = column.n_rows, column.n_filled
    if n_filled == 0:
        return "empty"
    if n_rows >= MANY_ROWS and n_filled <= max(HANDFUL, NEARLY_EMPTY * n_rows):
        return f"empty in all but {count_noun(n_filled, 'row')}"
    if n_filled < n_rows:
        return ""  # nulls may be informative
    if column.n_distinct == 1:
        return f"always {shown(column.most_frequent)}"
    others = n_rows - int(column.counts.max())
    if n_rows >= MANY_ROWS and others <= HANDFUL:
        return f"{shown(column.most_frequent)} in all but {others} rows"
    return ""


def _too_much_text(column: ColumnFacts) -> str:
    n_distinct, n_filled = column.n_distinct, column.n_filled
    is_category = n_distinct < NEARLY_UNIQUE * n_filled and n_distinct <= max(FEW_LEVELS, column.n_rows // 2)
    if n_filled < FEW_ROWS or is_category:
        return ""
    if is_free_text(column):
        return FREE_TEXT
    if n_distinct == n_filled:
        return "identifier: all values differ"
    nearly = "identifier, nearly" if n_distinct >= NEARLY_UNIQUE * n_filled else "too many different texts"
    return f"{nearly}: {n_distinct:,} different values in {n_filled:,} rows"


def is_free_text(column: ColumnFacts) -> bool:
    """Return whether the distinct texts of a column have several words on average."""
    return sum(len(text.split()) for text in column.texts) >= MIN_WORDS_OF_TEXT * column.n_distinct


def _number_of_a_row(column: ColumnFacts) -> str:
    if column.holds not in ("integer", "number") or column.n_filled < FEW_ROWS:
        return ""
    if column.n_distinct < NEARLY_UNIQUE * column.n_filled or not are_integers(column):
        return ""
    if name_words(column.name)[-1] in TIME_NAMES:
        return ""  # such as the years of a series
    low, high = column.range
    if column.n_distinct == column.n_rows and high - low == column.n_rows - 1:
        return f"row number, {low:.0f} to {high:.0f}"
    n_repeats = int((column.counts * (column.counts - 1) // 2).sum())
    if n_repeats + MANY_DEVIATIONS * n_repeats**0.5 + MIN_REPEATS <= expected_repeats(column):
        unique = (
            "unique" if column.n_distinct == column.n_filled else f"nearly unique ({column.n_distinct:,} different)"
        )
        return f"identifier: {column.n_filled:,} {unique} integers from {low:.0f} to {high:.0f}"
    if is_named_as_identifier(column.name):
        return f"identifier: {column.n_distinct:,} different values in {column.n_filled:,} rows"
    return ""


def expected_repeats(column: ColumnFacts) -> float:
    """Return the expected number of equal pairs if integers from the column's range were drawn uniformly.

    Any other distribution has more. If many pairs are expected but none occurs, the rows have been numbered.
    """
    low, high = column.range
    return column.n_filled * (column.n_filled - 1) / 2 / (high - low + 1)


def are_integers(column: ColumnFacts) -> bool:
    """Return whether all values are integers, also if nulls made the column float."""
    values = column.distinct.to_numpy(zero_copy_only=False)
    return column.holds == "integer" or bool((values.round() == values).all())


def is_count(column: ColumnFacts) -> bool:
    """Return whether a column contains counts: integers from 0 or 1, most of them in the lower half of the range."""
    if column.holds not in ("integer", "number") or not are_integers(column) or column.range[0] not in (0, 1):
        return False
    values = column.distinct.to_numpy(zero_copy_only=False)
    low_half = column.counts[values <= sum(column.range) / 2].sum()
    return bool(low_half > MIN_LOW_SHARE * column.n_filled)


def is_named_as_identifier(name: str) -> bool:
    """Return whether a name suggests an identifier: ``customerID``, ``obs_id``, ``row number``."""
    return bool(ID_WORDS.intersection(name_words(name)))


def is_named_as_key(name: str) -> bool:
    """Return whether a name suggests a key with repeated values: ``user_id``, but not ``number of calls``."""
    return bool(KEY_WORDS.intersection(name_words(name)))


def name_words(name: str) -> list[str]:
    """Return the words of a column name in lower case: ``customerID`` and ``customer_id`` give customer, id."""
    return re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def part_levels(column: ColumnFacts) -> dict[str, list[str]]:
    """Return the levels of a split marker for train, test and valid; empty for other columns."""
    if column.holds != "text" or not 2 <= column.n_distinct <= len(PARTS):
        return {}
    parts = {part: [text for text in sorted(column.texts) if text.lower() in words] for part, words in PARTS.items()}
    n_known = sum(map(len, parts.values()))
    return parts if n_known == column.n_distinct and parts["train"] and n_known > len(parts["train"]) else {}


def shown(value: object) -> str:
    """Return a value as shown in comments: numbers as they are, texts quoted and shortened."""
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, str):
        return str(value)
    return repr(value if len(value) <= 30 else value[:27] + "...")

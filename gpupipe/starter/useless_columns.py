"""Columns that a model learns nothing from: empty ones, constants, identifiers, split markers, free text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpupipe.starter.facts import ColumnFacts
from gpupipe.table.column_summary import FEW_LEVELS

HANDFUL = 5  # rows
NEARLY_EMPTY = 0.005
NEARLY_UNIQUE = 0.95
FEW_ROWS = 20  # below, every value may be different by chance
MANY_ROWS = 1_000
MOST_LOW = 0.75  # of the rows, in the lower half of a range: keys and classes are spread over theirs
MIN_REPEATS = 10  # of which none is there by chance once in 20,000 tables
WORDS_OF_A_TEXT = 4  # on average, from here on it is prose
KEY_WORDS = {"id", "ids", "uid", "uuid", "guid", "key", "pk"}
ID_WORDS = KEY_WORDS | {"code", "no", "nr", "num", "number", "index", "idx", "row"}  # of columns without repeats
PARTS = {
    "train": ("train", "training", "tr", "learn"),
    "test": ("test", "testing", "te", "holdout", "hold-out"),
    "valid": ("valid", "validation", "val", "dev", "eval"),
}


def find_useless_columns(facts: Mapping[str, ColumnFacts], known: set[str]) -> dict[str, str]:
    """Return the columns to leave out, each with the reason in a few words.

    Parameters
    ----------
    facts : mapping of str to ColumnFacts
    known : set of str
        Columns whose kind has been declared: their texts are dates or numbers.
    """
    reasons = {name: _reason(column, name in known) for name, column in facts.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def _reason(column: ColumnFacts, is_known: bool) -> str:
    if reason := _too_little(column):
        return reason
    if part_levels(column):
        return f"a split that somebody else made: {', '.join(column.texts)}"
    if column.holds == "text" and not is_known:
        return _too_much_text(column)
    return _number_of_a_row(column)


def _too_little(column: ColumnFacts) -> str:
    n_rows, n_filled = column.n_rows, column.n_filled
    if n_filled == 0:
        return "empty"
    if n_rows >= MANY_ROWS and n_filled <= max(HANDFUL, NEARLY_EMPTY * n_rows):
        return f"empty in all rows but {n_filled:,}"
    if n_filled < n_rows:
        return ""  # that a value is missing may say something
    if column.n_distinct == 1:
        return f"always {shown(column.most_frequent)}"
    others = n_rows - int(column.counts.max())
    if n_rows >= MANY_ROWS and others <= HANDFUL:
        return f"{shown(column.most_frequent)} in all rows but {others}"
    return ""


def _too_much_text(column: ColumnFacts) -> str:
    n_distinct, n_filled = column.n_distinct, column.n_filled
    is_category = n_distinct < n_filled and n_distinct <= max(FEW_LEVELS, column.n_rows // 2)
    if n_filled < FEW_ROWS or is_category:
        return ""
    if sum(len(text.split()) for text in column.texts) >= WORDS_OF_A_TEXT * n_distinct:
        return "free text"
    if n_distinct == n_filled:
        return "identifier: every value is different"
    nearly = "identifier, nearly" if n_distinct >= NEARLY_UNIQUE * n_filled else "too many different texts"
    return f"{nearly}: {n_distinct:,} different values in {n_filled:,} rows"


def _number_of_a_row(column: ColumnFacts) -> str:
    if column.holds not in ("integer", "number") or column.n_filled < FEW_ROWS:
        return ""
    if column.n_distinct < NEARLY_UNIQUE * column.n_filled or not are_integers(column):
        return ""
    low, high = column.range
    if column.n_distinct == column.n_rows and high - low == column.n_rows - 1:
        return f"running number, {low:.0f} to {high:.0f}"
    if expected_repeats(column) >= MIN_REPEATS and column.n_distinct == column.n_filled:
        return f"identifier: {column.n_filled:,} integers from {low:.0f} to {high:.0f}, and none is there twice"
    if is_named_as_identifier(column.name):
        return f"identifier: {column.n_distinct:,} different values in {column.n_filled:,} rows"
    return ""


def expected_repeats(column: ColumnFacts) -> float:
    """Return how many pairs of equal values there would be, had integers of the column's range been drawn at random.

    Drawn unevenly, there would be more: where many are expected and none is there, somebody has numbered the rows.
    """
    low, high = column.range
    return column.n_filled * (column.n_filled - 1) / 2 / (high - low + 1)


def are_integers(column: ColumnFacts) -> bool:
    """Return whether all values are integers; where some are missing, a reader has floats."""
    values = column.distinct.to_numpy(zero_copy_only=False)
    return column.holds == "integer" or bool((values.round() == values).all())


def is_count(column: ColumnFacts) -> bool:
    """Return whether a column holds integers from 0 or 1 on, most of them in the lower half: not keys, nor classes."""
    if column.holds not in ("integer", "number") or not are_integers(column) or column.range[0] not in (0, 1):
        return False
    values = column.distinct.to_numpy(zero_copy_only=False)
    low_half = column.counts[values <= sum(column.range) / 2].sum()
    return bool(low_half > MOST_LOW * column.n_filled)


def is_named_as_identifier(name: str) -> bool:
    """Return whether a name speaks of an identifier: ``customerID``, ``obs_id``, ``row number``."""
    return bool(ID_WORDS.intersection(name_words(name)))


def is_named_as_key(name: str) -> bool:
    """Return whether a name speaks of a key that may repeat: ``user_id``, but not ``number of calls``."""
    return bool(KEY_WORDS.intersection(name_words(name)))


def name_words(name: str) -> list[str]:
    """Return the words of a column name in lower case: ``customerID`` and ``customer_id`` are customer, id."""
    return re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def part_levels(column: ColumnFacts) -> dict[str, list[str]]:
    """Return which levels of a column mean train, test and valid; nothing where it is no split marker."""
    if column.holds != "text" or not 2 <= column.n_distinct <= len(PARTS):
        return {}
    parts = {part: [text for text in sorted(column.texts) if text.lower() in words] for part, words in PARTS.items()}
    n_known = sum(map(len, parts.values()))
    return parts if n_known == column.n_distinct and parts["train"] and n_known > len(parts["train"]) else {}


def shown(value: object) -> str:
    """Return a value as a comment shows it: a number as it is, a text in quotes and not too long."""
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, str):
        return str(value)
    return repr(value if len(value) <= 30 else value[:27] + "...")

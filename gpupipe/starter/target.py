"""The target column: lookup by name or position, suggestions, and the positive label."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.starter.columns import ColumnDeclaration, TableColumns
from gpupipe.starter.entities import is_named
from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.useless_columns import is_count, is_named_as_identifier, name_words, shown
from gpupipe.table.column_summary import FEW_LEVELS

MAX_CLASSES = 10  # up to this many consecutive integers from 0 or 1 are classes
MIN_COUNTS = 7  # from this many values, mostly small ones are counts
SHOWN = 20
SUGGESTIONS = 3
POSITIVE = {"yes", "y", "true", "t", "positive", "pos", "churned", "fraud", "spam", "bad", "default", "malignant"}
NEGATIVE = {"no", "n", "false", "f", "negative", "neg", "normal", "ham", "good", "none", "benign"}
TARGET_WORDS = {
    *("target", "label", "class", "y", "outcome", "response", "result", "score", "quality", "diagnosis", "species"),
    *("churn", "churned", "exited", "attrition", "survived", "default", "fraud", "converted", "clicked", "cancelled"),
    *("income", "salary", "price", "cost", "fare", "duration", "cnt", "count", "demand", "sales", "revenue"),
}


@dataclass(frozen=True)
class PositiveLabel:
    """The positive label and the reason for it."""

    label: Any
    reason: str


def find_target(wanted: str, facts: Mapping[str, ColumnFacts], has_header: bool) -> str:
    """Return the name of the target column; without a header, also by position: ``15``, ``-1``, ``last``.

    Raise ConfigError if the column does not exist, or cannot be a target.
    """
    names = list(facts)
    padded = [name for name in names if name.strip() == wanted.strip()]
    if wanted in facts:
        found = wanted
    elif len(padded) == 1:
        found = padded[0]
    elif not has_header and (position := _position(wanted, len(names))) is not None:
        found = names[position]
    else:
        hint = did_you_mean(wanted, names) or f"the columns are {', '.join(names[:SHOWN])}"
        raise ConfigError(f"no column {wanted!r}", where="--target", fix=hint)
    _require_learnable(facts[found])
    return found


def _position(wanted: str, n_columns: int) -> int | None:
    if wanted == "last":
        return n_columns - 1
    if not re.fullmatch(r"-?\d+", wanted):
        return None
    number = int(wanted)
    position = number - 1 if number > 0 else n_columns + number
    return position if 0 <= position < n_columns and number else None


def _require_learnable(column: ColumnFacts) -> None:
    fix = "choose another column; without --target, init lists them"
    if column.n_distinct < 2:
        values = "the single value " + shown(column.most_frequent) if column.n_distinct else "no value"
        raise ConfigError(f"the target {column.name!r} has {values}", where="--target", fix=fix)
    if column.holds == "time":
        raise ConfigError(f"the target {column.name!r} is a datetime column", where="--target", fix=fix)
    if column.holds == "text" and column.n_distinct > max(FEW_LEVELS, column.n_filled // 2):
        what = f"the target {column.name!r} has {column.n_distinct:,} different texts in {column.n_filled:,} rows"
        raise ConfigError(what, where="--target", fix=fix)


def classes_in_numbers(column: ColumnFacts) -> ColumnDeclaration | None:
    """Return the declaration of an integer target whose values are classes rather than a quantity."""
    if column.holds != "integer" or not 2 < column.n_distinct <= MAX_CLASSES:
        return None
    low, high = column.range
    if low not in (0, 1) or high - low + 1 != column.n_distinct:
        return None
    if column.n_distinct >= MIN_COUNTS and is_count(column):
        return None
    return ColumnDeclaration("categorical", f"{column.n_distinct} classes; remove this line if they are a quantity")


def choose_positive(labels: Sequence[Any], counts: Mapping[str, int]) -> PositiveLabel:
    """Return the positive one of two labels: an affirmative word, 1 compared with 0 or -1, or the rarer one.

    - `labels`: both labels.
    - `counts`: number of rows by label, as text.
    """
    sizes = {label: number for label in labels if (number := _number(label)) is not None}
    if len(sizes) == 2 and min(sizes.values()) <= 0:
        low, high = sorted(sizes, key=lambda label: sizes[label])
        return PositiveLabel(high, f"the other label is {shown(low)}")
    if sizes:
        return _rarer(labels, counts)
    words = {label: str(label).strip().lower() for label in labels}
    positive = [label for label in labels if words[label] in POSITIVE]
    negative = [label for label in labels if words[label] in NEGATIVE]
    first, second = labels
    other = {first: second, second: first}
    if len(positive) == 1:
        return PositiveLabel(positive[0], f"the other label is {shown(other[positive[0]])}")
    if len(negative) == 1:
        return PositiveLabel(other[negative[0]], f"the other label is {shown(negative[0])}")
    return _rarer(labels, counts)


def _number(label: Any) -> float | None:
    if isinstance(label, bool):
        return None
    try:
        return float(label)
    except ValueError:
        return None


def _rarer(labels: Sequence[Any], counts: Mapping[str, int]) -> PositiveLabel:
    """Return the label with fewer rows, or the last one if tied."""
    n_rows = {label: counts.get(str(label), 0) for label in labels}
    rarer, other = sorted(reversed(labels), key=lambda label: n_rows[label])
    return PositiveLabel(rarer, f"the rarer label; the other is {shown(other)}")


def suggest_targets(columns: TableColumns) -> dict[str, str]:
    """Return the most likely target columns, best first, each with the reasons; none of them is an identifier."""
    names = [name for name in columns.kept if _can_be_target(columns.facts[name], columns)]
    last = names[-1] if names else ""
    what = (
        "it is the last column"
        if last == list(columns.facts)[-1]
        else "it is the last column that is not a key or date"
    )
    reasons = {name: _reasons(columns.facts[name], what if name == last else "") for name in names}
    likely = sorted((name for name in names if reasons[name]), key=lambda name: -sum(reasons[name].values()))
    return {name: ", ".join(reasons[name]) for name in likely[:SUGGESTIONS]}


def _can_be_target(column: ColumnFacts, columns: TableColumns) -> bool:
    """Return whether a model could predict a column: it is not a key, a code, a time or a text with many values."""
    name, kind = column.name, columns.kind(column.name)
    has_many_texts = kind == "categorical" and column.n_distinct > FEW_LEVELS
    is_key = name in columns.source_table.codes or is_named(name) or is_named_as_identifier(name)
    return column.n_distinct > 1 and kind not in ("datetime", "text") and not has_many_texts and not is_key


def _reasons(column: ColumnFacts, place: str) -> dict[str, int]:
    """Return the reasons for a target, and how much each counts."""
    reasons = {"its name": 3} if TARGET_WORDS.intersection(name_words(column.name)) else {}
    if place:
        reasons[place] = 1
    if column.n_distinct == 2:
        reasons[f"it is {' or '.join(shown(value) for value in column.distinct.to_pylist())}"] = 1
    return reasons

"""Class labels with the type of the target column, and their comparison with the labels of a configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpupipe.model_parts.goal import LABEL_TYPES, label_text
from gpupipe.settings import Label
from gpupipe.table.schema import BOOLEAN_WORDS, Column

WHOLE = re.compile(r"0|-?[1-9][0-9]*")
BOOLEANS = {"false": False, "true": True}
FLOATS = ("double", "float", "halffloat")


@dataclass(frozen=True)
class ClassLabels:
    """The label of each level of a target column, or of each of its values.

    The labels are all of one Python type: bool, int, float or str. For `kind`, see
    `gpupipe.model_parts.goal.Goal.label_type`.
    """

    labels: tuple[Any, ...]
    kind: str = ""

    @classmethod
    def of_levels(cls, column: Column, is_untyped: bool) -> ClassLabels:
        """Return the labels of the levels of a column, with its type in the training table.

        If `is_untyped`, the table is CSV, where every value is text: the labels then have the type that the reader
        infers without a declaration, so that 1, 11 and 21 are integers in either case.
        """
        levels, dtype = column.levels or (), column.dtype
        if column.kind == "boolean" or dtype == "bool":
            return cls(tuple(map(BOOLEANS.__getitem__, levels)))
        typed: tuple[Any, ...] | None = None
        if "int" in dtype or dtype.startswith("decimal") or dtype in FLOATS:
            typed = _as_numbers(levels)
        elif is_untyped:
            typed = _as_booleans(levels) or _as_numbers(levels)
        return cls(levels) if typed is None else cls(typed, _kind(typed, dtype))

    @classmethod
    def of_numbers(cls, column: Column, values: Sequence[float]) -> ClassLabels:
        """Return the labels of the values of a numeric column: integers if all of them are whole numbers."""
        is_whole = all(float(value).is_integer() for value in values)
        labels = tuple(int(value) if is_whole else float(value) for value in values)
        return cls(labels, _kind(labels, column.dtype))


def _as_booleans(levels: Sequence[str]) -> tuple[bool, ...] | None:
    """Return levels as booleans if they are the words for both that Arrow reads in CSV, else None."""
    words = [level.lower() for level in levels]
    return tuple(BOOLEANS[word] for word in words) if sorted(words) == sorted(BOOLEANS) else None


def _as_numbers(levels: Sequence[str]) -> tuple[int | float, ...] | None:
    """Return levels as integers of 64 bits, else as floats; None if that changes the text of one."""
    if all(map(WHOLE.fullmatch, levels)):
        found = tuple(map(int, levels))
        has_type = min(found, default=0) >= -(2**63) and max(found, default=0) < (2**63 if min(found) < 0 else 2**64)
        return found if has_type else None
    try:
        numbers = tuple(map(float, levels))
    except ValueError:
        return None
    texts = [f"{number:.0f}" if number.is_integer() else repr(number) for number in numbers]
    return numbers if texts == list(levels) else None


def _kind(labels: Sequence[Any], dtype: str) -> str:
    """Return the `Goal.label_type` of numbers from a column of type `dtype`."""
    if not all(type(label) is int for label in labels):
        return ""
    return dtype if dtype in LABEL_TYPES or dtype.startswith("decimal") else ""


def names_label(given: Label, label: Any) -> bool:
    """Return whether a label in a configuration, such as ``positive: true``, names a class label.

    Booleans are also written as words or 1 and 0, and numbers in any notation.

    >>> [names_label(given, True) for given in (True, 1, "1", "True", "yes", 0)]
    [True, True, True, True, True, False]
    >>> names_label("1.0", 1), names_label(True, 1), names_label(1, "1"), names_label(True, "Yes")
    (True, True, True, True)
    """
    if isinstance(label, bool):
        word = _number_text(given) or label_text(given).strip().lower()
        return BOOLEAN_WORDS.get(word) == label
    if isinstance(label, int | float):
        number = _number_text(int(given) if isinstance(given, bool) else given)
        return number is not None and number == _number_text(label)
    if isinstance(given, bool):
        return BOOLEAN_WORDS.get(label.strip().lower()) == given
    return str(given) == label or (not isinstance(given, str) and _number_text(given) == label)


def _number_text(value: Label) -> str | None:
    """Return a number, or a text that is one, in its canonical form; None for others."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and WHOLE.fullmatch(value.strip()):
        return value.strip()
    try:
        number = value if isinstance(value, int) else float(value)
    except ValueError:
        return None
    return f"{number:.0f}" if isinstance(number, float) and number.is_integer() else str(number)

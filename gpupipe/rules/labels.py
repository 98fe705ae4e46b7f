"""Values in data rules as numbers, levels and bounds, and texts as values. Importable without Arrow."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from gpupipe.table.cell_encoders import read_number
from gpupipe.table.schema import BOOLEAN_WORDS
from gpupipe.table.time_formats import formats_of

WHOLE = ("int", "integer")
EXACT = 2.0**53  # float64 represents all integers up to this one


def to_level(label: Any, kind: str) -> str:
    """Return the level of a categorical, boolean or text column for a value in the configuration."""
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    text = str(label).lower() if isinstance(label, bool) else str(label)
    return ("false", "true")[BOOLEAN_WORDS[_word(text)]] if kind == "boolean" and is_boolean(text) else text


def to_numbers(labels: Iterable[Any]) -> set[float]:
    """Return the numbers among values in the configuration."""
    found = set()
    for label in labels:
        try:
            found.add(float(label))
        except ValueError:
            continue  # text, which equals no number
    return found


def integer_bounds(dtype: str | None) -> tuple[float, float] | None:
    """Return the bounds of an integer dtype of ``schema:``, or None for another dtype."""
    if dtype in WHOLE:
        return -math.inf, math.inf
    if dtype is None or "int" not in dtype:
        return None
    return float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)


def is_boolean(text: str) -> bool:
    """Return whether a text is a boolean word."""
    return _word(text) in BOOLEAN_WORDS


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        read_number(text)
    except ValueError:
        return False
    return True


def is_time(text: str) -> bool:
    """Return whether a text is a time in a known format."""
    return bool(formats_of(text))


def _word(text: str) -> str:
    return text.strip().lower()

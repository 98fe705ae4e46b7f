"""Items of single lists: Python lists, arrays and JSON arrays. Without Arrow, for single rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

NUMBER, TEXT = "number", "text"
MOST_EXACT = 2**53  # float64 represents all integers up to this one


def list_items(value: Any) -> tuple[list[Any], str]:
    """Return the items of a list, as floats or texts, and which of both; ``""`` if all are null.

    A text is a JSON array. Booleans are 0 and 1; None and NaN are null. Raise ValueError, with what was found, for
    other values, for numbers and texts in one list, and for integers that float64 rounds.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError("a text that is not a JSON array") from None
    value = value.tolist() if hasattr(value, "tolist") and getattr(value, "ndim", 1) == 1 else value
    if not isinstance(value, list | tuple):
        raise ValueError(f"a single {type(value).__name__}")
    items = [_item(item) for item in value]
    kinds = {TEXT if isinstance(item, str) else NUMBER for item in items if item is not None}
    if len(kinds) > 1:
        raise ValueError("a list of numbers and texts")
    return items, next(iter(kinds), "")


def _item(item: Any) -> float | str | None:
    item = item.item() if isinstance(item, np.generic) else item
    if item is None or type(item).__name__ == "NAType" or item != item:
        return None
    if isinstance(item, str):
        item.encode()  # raises UnicodeEncodeError, a ValueError, for a lone surrogate
        return str(item)
    if not isinstance(item, int | float):
        raise ValueError(f"a list with a {type(item).__name__}")
    if isinstance(item, int) and abs(item) > MOST_EXACT:
        raise ValueError(f"a list with an integer above 2**53: {item}")
    return float(item)

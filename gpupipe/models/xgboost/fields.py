"""Typed values of a parsed file; anything else raises ValueError."""

from __future__ import annotations

import re
from typing import Any

from gpupipe.typing import HostArray

INT32 = (1 << 31) - 1
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,9}")
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?")


def fields_of(value: Any, what: str, needed: Any, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return an object with all of the `needed` fields, and no others except `optional` ones."""
    if type(value) is not dict:
        raise ValueError(f"{what} should be an object")
    if missing := set(needed) - set(value):
        raise ValueError(f"{what} has no {min(missing)}")
    if unknown := set(value) - set(needed) - set(optional):
        raise ValueError(f"{what} has an unknown field {min(unknown)!r:.40}")
    return dict(value)


def list_of(value: Any, what: str) -> list[Any]:
    """Return a list."""
    if type(value) is not list:
        raise ValueError(f"{what} should be a list")
    return value


def array_of(value: Any, dtype: str, what: str) -> HostArray:
    """Return an array of exactly this dtype, byte order included."""
    import numpy as np

    if not isinstance(value, np.ndarray) or value.dtype != dtype:
        raise ValueError(f"{what} should be an array of {dtype[1:]}")
    return value


def integer_within(value: Any, low: int, high: int, what: str) -> int:
    """Return an integer from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} is {value!r:.40}; expected an integer from {low} to {high}")
    return value


def integer_of_text(text: Any, low: int, high: int, what: str) -> int:
    """Return the integer of a text in canonical form."""
    if type(text) is not str or not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
        raise ValueError(f"{what} is {text!r:.40}; expected an integer from {low} to {high}")
    return int(text)


def check_number(text: Any, low: float, high: float, what: str) -> None:
    """Check the text of a finite float32 from `low` to `high`."""
    import numpy as np

    if type(text) is not str or not _NUMBER.fullmatch(text) or abs(float(text)) > np.finfo(np.float32).max:
        raise ValueError(f"{what} is {text!r:.40}; expected a finite number")
    if not low <= float(text) <= high:
        raise ValueError(f"{what} is {text}; expected a number from {low} to {high}")

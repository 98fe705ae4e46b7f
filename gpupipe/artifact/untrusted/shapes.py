"""Shapes of JSON documents from untrusted files, checked at every depth before any value is used.

A shape is a type (`float` includes integers, `object` is any value), None, a set of texts, a range of integers, a tuple
of alternatives, a list with the shape of its items, a dict of keys and shapes, or a function from a value to its shape.
A key that ends with ``?`` is optional. The key `...` has the shape of other entries, which are refused without it.

The checks take the types that a JSON parser makes: True is not a number, and a subclass of str is not a text.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

Shape = Any
MOST_LETTERS = 40  # of a value or name in a message
_WORDS = {str: "text", bool: "true or false", int: "an integer", float: "a finite number", None: "null"}


def check_shape(value: Any, shape: Shape, entry: str = "") -> None:
    """Raise ValueError unless a JSON value has a shape; the message has the entry, what is expected and what is found.

    `entry` names the value in the message, such as ``"columns[3].name"``.

    Examples
    --------
    >>> check_shape({"name": "age", "counts": [1, 2]}, {"name": str, "counts": [int], "unit?": (str, None)})
    >>> check_shape({"name": "age", "counts": [1, "x"]}, {"name": str, "counts": [int]})
    Traceback (most recent call last):
    ValueError: counts[1]: expected an integer; found 'x'
    """
    if type(shape) is FunctionType:
        shape = shape(value)
    if type(shape) is tuple and (inner := next((s for s in shape if type(s) is type(value)), None)) is not None:
        shape = inner  # an object or list is compared in detail with the alternative of its type
    if type(shape) is list and type(value) is list:
        (of_items,) = shape
        if of_items is not str or any(type(item) is not str for item in value):  # there may be millions of levels
            for i, item in enumerate(value):
                check_shape(item, of_items, f"{entry}[{i}]")
    elif type(shape) is dict and type(value) is dict:
        _check_object(value, shape, entry)
    elif shape is not object and not _matches(value, shape):
        raise ValueError(f"{entry or 'the document'}: expected {_expected(shape)}; found {found_value(value)}")


def _check_object(values: dict[str, Any], shape: dict[Any, Shape], entry: str) -> None:
    prefix = f"{entry}." if entry else ""
    for key, inner in shape.items():
        if key is not ... and key not in values and not key.endswith("?"):
            raise ValueError(f"{prefix}{key}: expected {_expected(inner)}; the entry is missing")
    for name, value in values.items():
        keys = [key for key in (name, f"{name}?", ...) if key in shape]
        if not keys:
            known = ", ".join(key.removesuffix("?") for key in shape)
            raise ValueError(f"{prefix}{name:.{MOST_LETTERS}}: unknown entry; expected {known or 'none'}")
        check_shape(value, shape[keys[0]], f"{prefix}{name:.{MOST_LETTERS}}")


def _matches(value: Any, shape: Shape) -> bool:
    """Return whether a value has a shape that is not of a list or object with items to check."""
    if type(shape) is tuple:
        return any(_matches(value, each) for each in shape)
    if type(shape) is range:
        return type(value) is int and value in shape
    if type(shape) is set:
        return type(value) is str and value in shape
    if shape is float:  # JSON integers are unbounded
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    return value is None if shape is None else type(value) is shape


def _expected(shape: Shape) -> str:
    if type(shape) is FunctionType:
        return _expected(shape(None))
    if type(shape) is tuple:
        return " or ".join(dict.fromkeys(map(_expected, shape)))
    if type(shape) is range:
        return f"an integer in [{shape.start:,}, {shape.stop - 1:,}]"
    if type(shape) is set:
        return f"{'one of ' if len(shape) > 1 else ''}{', '.join(sorted(shape))}"
    return "a list" if type(shape) is list else "an object" if type(shape) is dict else _WORDS.get(shape, "a value")


def found_value(value: Any) -> str:
    """Return a short text of a JSON value for a message."""
    if type(value) in (list, dict):
        return f"{'a list' if type(value) is list else 'an object'} with {len(value):,} entries"
    text = repr(value) if type(value) in (str, float) else {None: "null"}.get(value, str(value).lower())
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."

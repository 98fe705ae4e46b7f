"""Arrow types of numbers whose every digit counts: identifiers, keys and levels, without a float64 on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from numbers import Integral
from typing import Any

import pyarrow as pa

from gpupipe.table.exact_texts import MOST_DIGITS

WHOLE = pa.decimal128(38, 0)
WIDE_WHOLE = pa.decimal256(MOST_DIGITS, 0)
LARGE_INTEGERS = (pa.uint64(), WHOLE, WIDE_WHOLE)  # types of integers that int64 does not hold, narrowest first
SHORT_BYTES = 64  # the longest binary value that is read as an identifier: SHA-512


def integer_array(values: Iterable[Any]) -> pa.Array:
    """Return integers, and None, with the narrowest of int64, uint64, decimal128(38, 0) and decimal256(76, 0).

    Raise ValueError if an integer has more than 76 digits; the message contains it.
    """
    known = [None if value is None else int(value) for value in values]
    present = [value for value in known if value is not None]
    low, high = min(present, default=0), max(present, default=0)
    if low >= -(2**63) and high < 2**63:
        return pa.array(known, pa.int64())
    if low >= 0 and high < 2**64:
        return pa.array(known, pa.uint64())
    most = max(-low, high)
    if most >= 10**MOST_DIGITS:
        shown = f"{most:.3g}" if most < 10**300 else f"{len(str(most)):,} digits"
        raise ValueError(f"an integer has more than {MOST_DIGITS} digits ({shown})")
    return pa.array(known, WHOLE if most < 10**38 else WIDE_WHOLE)


def as_whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return integers or decimals as int64 if all values are whole and fit, as decimals if not all fit.

    Decimals with a fraction are returned unchanged.
    """
    for kind in (pa.int64(), WHOLE, WIDE_WHOLE):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column


def exact_array(values: Any) -> pa.Array:
    """Return a column as ``pyarrow.array`` does, and integers, which may be large, with their exact type.

    Raise ValueError if an integer has more than 76 digits, and pyarrow.ArrowException, OverflowError or TypeError if
    the values have no common type.
    """
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        known = [None if _is_missing(value) else value for value in values]
        kinds = {_kind(value) for value in known if value is not None}
        if kinds == {int}:
            return integer_array(known)
        if kinds <= {int, Decimal}:
            return pa.array([None if value is None else Decimal(value) for value in known])
        if kinds <= {int, float}:
            return pa.array([None if value is None else float(value) for value in known], pa.float64())
        raise


def _is_missing(value: Any) -> bool:
    """Return whether a value of an object column is None, NaN, or missing in pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | Decimal) and value != value


def _kind(value: Any) -> type:
    """Return int for integers of Python and NumPy, float likewise, and otherwise the type."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int
    return float if isinstance(value, float) else type(value)


def wider_number(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type that holds the numbers of both types: exactly, unless one is floating; None if not numbers."""
    if not (is_number(a) and is_number(b)):
        return None
    if a == b:
        return a
    if pa.types.is_floating(a) or pa.types.is_floating(b):
        return pa.float64()
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        if pa.uint64() not in (a, b):
            return pa.int64()
        return WHOLE if pa.types.is_signed_integer(a) or pa.types.is_signed_integer(b) else pa.uint64()
    (whole_a, scale_a), (whole_b, scale_b) = _digits(a), _digits(b)
    scale = max(scale_a, scale_b)
    digits = max(whole_a, whole_b) + scale
    if digits > MOST_DIGITS:
        return pa.float64()
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def decimal_type(name: str) -> pa.DataType:
    """Return the decimal type with this name.

    >>> decimal_type("decimal128(38, 0)")
    Decimal128Type(decimal128(38, 0))
    """
    width, digits, scale = map(int, re.findall(r"[0-9]+", name))
    return (pa.decimal128 if width == 128 else pa.decimal256)(digits, scale)


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is integer, floating or decimal."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Return the numbers of digits before and after the point of an exact type."""
    return (kind.precision - kind.scale, kind.scale) if pa.types.is_decimal(kind) else (20, 0)

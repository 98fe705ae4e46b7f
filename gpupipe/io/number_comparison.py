"""Exact comparison of numbers of different Arrow types, where Arrow would compare float64 or refuse."""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.table.exact_texts import MOST_DIGITS
from gpupipe.table.exact_values import is_number, wider_number

FLIPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
# For a value between two float64 numbers, with the lower one, and with the upper one.
ABOVE = {"less": "less_equal", "less_equal": "less_equal", "greater": "greater", "greater_equal": "greater"}
BELOW = {"less": "less", "less_equal": "less", "greater": "greater_equal", "greater_equal": "greater_equal"}


def number_scalar(value: Any) -> pa.Scalar:
    """Return a value of a filter as an Arrow scalar; integers outside int64 are decimals.

    Raise OverflowError if an integer has more than 76 digits.
    """
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        if abs(value) >= 10**MOST_DIGITS:
            raise OverflowError
        return pa.scalar(Decimal(value))
    return pa.scalar(value)


def compare(function: str, first: pa.ChunkedArray | pa.Scalar, second: pa.ChunkedArray | pa.Scalar) -> pa.ChunkedArray:
    """Return the result of a comparison function of Arrow; numbers of different types are compared exactly.

    A fraction in a filter means the decimal that is written, so that 0.1 equals the decimal 0.1. Raise
    pyarrow.ArrowException if the types cannot be compared.
    """
    a, b = first.type, second.type
    if a == b or not (is_number(a) and is_number(b)):
        return pc.call_function(function, [first, second])
    if isinstance(first, pa.Scalar):
        return compare(FLIPPED.get(function, function), second, first)
    if isinstance(second, pa.Scalar):
        if pa.types.is_floating(a):
            return _with_float_column(function, first, second.as_py())
        if pa.types.is_floating(b) and math.isfinite(second.as_py()):
            with suppress(pa.ArrowInvalid):  # more digits than a decimal has
                second = pa.scalar(Decimal(repr(second.as_py())))
    common = wider_number(a, second.type) or pa.float64()
    is_exact = not pa.types.is_floating(common)
    return pc.call_function(function, [_cast(first, common, is_exact), _cast(second, common, is_exact)])


def _cast(values: pa.ChunkedArray | pa.Scalar, kind: pa.DataType, is_exact: bool) -> Any:
    if isinstance(values, pa.Scalar):
        return pa.array([values.as_py()]).cast(kind, safe=is_exact)[0]
    return values.cast(kind, safe=is_exact)


def _with_float_column(function: str, column: pa.ChunkedArray, value: Any) -> pa.ChunkedArray:
    """Compare a column of floats with a number that is possibly not a float."""
    try:
        number = float(value)
    except OverflowError:
        number = math.copysign(math.inf, value)
    if number != value:
        if function not in ABOVE:
            number = math.nan  # equal to no value
        else:
            function = (ABOVE if value > number else BELOW)[function]
    return pc.call_function(function, [column.cast(pa.float64()), pa.scalar(number)])

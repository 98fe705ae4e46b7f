"""Exact parsing of plain decimal numbers on a device: the digits as an integer, divided by a power of ten.

A plain number such as ``-12.50`` has up to 15 digits, so float64 represents the integer and the power exactly. Other
strings are parsed on the host, from their distinct values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import DeviceBackend
from gpupipe.table.device.frame_columns import DeviceNumbers
from gpupipe.typing import Array

MOST_DIGITS = 15  # float64 represents all integers with this many digits exactly
POWERS = 10.0 ** np.arange(MOST_DIGITS + 1)
WORDS = {False: "2", True: "2.5"}  # represent the plain numbers when types are inferred, without or with a point


def is_plain_number(series: Any, pattern: str) -> Any:
    """Return a mask of the strings that match a pattern of plain numbers and are short; `series` has no nulls."""
    # In a pattern, $ also matches before a newline at the end.
    is_short = (series.str.len() <= MOST_DIGITS) & ~series.str.contains("\n", regex=False)
    return series.str.match(pattern) & is_short


def plain_numbers(series: Any, backend: DeviceBackend) -> tuple[Array, bool]:
    """Return plain numbers as correctly rounded float64, and True if any has a decimal point."""
    xp = backend.xp
    digits = backend.values(series.str.replace(".", "", regex=False).astype("int64"), "int64")
    point = backend.values(series.str.find("."), "int64")
    decimals = xp.where(point < 0, 0, backend.values(series.str.len(), "int64") - point - 1)
    size = xp.abs(digits).astype("float64") / xp.asarray(POWERS)[decimals]
    negative = backend.values(series.str.startswith("-"), "bool")
    return xp.where(negative, -size, size), bool((point >= 0).any())


def merge_numbers(plain: Array, codes: Array, others: pa.Array, backend: DeviceBackend) -> DeviceNumbers:
    """Return the column of plain numbers and other values; the last of `others` belongs to no row.

    `plain` is float64, and `others` are numbers or booleans. `codes` has the index of each row in `others`; -1 for a
    plain number.
    """
    xp = backend.xp
    name = storage(others.type)
    known = np.asarray(others.is_valid())
    table = backend.to_device(np.asarray(others.cast(pa.from_numpy_dtype(name)).fill_null(0)))
    values = xp.where(codes >= 0, xp.take(table, codes), plain.astype(name))
    return DeviceNumbers(values, xp.take(backend.to_device(known), codes), others.type)


def storage(kind: pa.DataType) -> str:
    """Return the NumPy dtype of `DeviceNumbers.values` for an Arrow type."""
    if pa.types.is_boolean(kind):
        return "int8"
    return "int64" if pa.types.is_timestamp(kind) else str(kind.to_pandas_dtype().__name__)

"""Exact parsing of decimal numbers on a device: digits as an integer, divided by a power of ten.

That holds for plain ones (``-12.50``, up to 15 digits: a float64 holds each such integer and each such power). What
others mean is found out on the host, of the distinct ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import DeviceBackend
from gpupipe.table.device.frame_columns import DeviceNumbers
from gpupipe.typing import Array

MOST_DIGITS = 15  # a float64 holds each of them exactly
POWERS = 10.0 ** np.arange(MOST_DIGITS + 1)
WORDS = {False: "2", True: "2.5"}  # stand for the plain numbers: with a point or without


def is_plain_number(series: Any, pattern: str) -> Any:
    """Return which texts of a series without nulls match a pattern of numbers with a point at most, and are short."""
    # A dollar sign matches before a newline at the end too.
    is_short = (series.str.len() <= MOST_DIGITS) & ~series.str.contains("\n", regex=False)
    return series.str.match(pattern) & is_short


def plain_numbers(series: Any, backend: DeviceBackend) -> tuple[Array, bool]:
    """Return plain numbers as float64 (exact: one division of two exact numbers), and whether one has a point."""
    xp = backend.xp
    digits = backend.values(series.str.replace(".", "", regex=False).astype("int64"), "int64")
    point = backend.values(series.str.find("."), "int64")
    decimals = xp.where(point < 0, 0, backend.values(series.str.len(), "int64") - point - 1)
    size = xp.abs(digits).astype("float64") / xp.asarray(POWERS)[decimals]
    negative = backend.values(series.str.startswith("-"), "bool")
    return xp.where(negative, -size, size), bool((point >= 0).any())


def merge_numbers(plain: Array, codes: Array, others: pa.Array, backend: DeviceBackend) -> DeviceNumbers:
    """Merge plain numbers with the values of the other rows; the last of `others` has no row.

    Parameters
    ----------
    plain : array of float64, shape (rows,)
    codes : array of int, shape (rows,)
        The place of a row among `others`; -1 where the number is plain.
    others : pyarrow.Array
        Numbers or booleans.
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

"""Data frame columns as arrays: numbers with a validity mask, texts as codes of their distinct values.

Frames are from cuDF or pandas; the backend handles the differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend, DeviceBackend
from gpupipe.table.schema import NAT
from gpupipe.typing import Array, ArrayNamespace
from gpupipe.units import TICKS_PER_SECOND


@dataclass(frozen=True)
class DeviceNumbers:
    """A column of numbers, booleans or times.

    `values` are in the NumPy dtype of `type`, shape (rows,); booleans as int8, times as int64 microseconds. `valid`
    flags the rows that have a value; other values are undefined.
    """

    values: Array
    valid: Array
    type: pa.DataType

    @classmethod
    def of(cls, series: Any, backend: DeviceBackend) -> DeviceNumbers:
        """Return the values of a series of numbers, booleans or times."""
        if series.dtype.kind == "M":
            micros = to_micros(*backend.ticks(series), backend.xp)
            zone = str(getattr(getattr(series.dtype, "pyarrow_dtype", series.dtype), "tz", None) or "UTC")
            return cls(micros, micros != NAT, pa.timestamp("us", None if zone == "UTC" else zone))
        name = getattr(series.dtype, "numpy_dtype", series.dtype).name
        kind = pa.from_numpy_dtype(name)
        if series.dtype.kind == "f":
            values = backend.values(series, name)
            return cls(values, values == values, kind)  # data frames do not distinguish NaN from null
        is_flag = series.dtype.kind == "b"
        values = backend.values(series.fillna(False if is_flag else 0), "int8" if is_flag else name)
        return cls(values, backend.values(series.notna(), "bool"), kind)

    def __len__(self) -> int:
        return len(self.values)

    def summary(self) -> pa.ChunkedArray:
        """Return a column of at most three values with everything that the schema depends on: type, bounds, nulls."""
        known: list[int] = []
        if self.values.dtype.kind in "iu" and len(present := self._present()):
            known = [int(present.min()), int(present.max())]
        bounds = pa.array(known, pa.from_numpy_dtype(self.values.dtype.name)).cast(self.type)
        return pa.chunked_array([bounds, pa.nulls(int(not self.valid.all()), self.type)], self.type)

    def distinct(self, backend: Backend) -> tuple[Array, pa.Array]:
        """Return the position of each row's value in the distinct values (int32; -1: null), and those on the host."""
        xp = backend.xp
        found, positions = xp.unique(self._present(), return_inverse=True)
        codes = xp.full(len(self.values), -1, "int32")
        codes[xp.flatnonzero(self.valid)] = positions
        return codes, pa.array(backend.to_host(found)).cast(self.type)

    def floats(self, storage: str, xp: ArrayNamespace) -> Array:
        """Return the values as float32 or float64, NaN for missing values."""
        with np.errstate(over="ignore"):
            values = self.values.astype(storage)
        return xp.where(self.valid, values, xp.asarray(np.nan, storage))

    def _present(self) -> Array:
        known: Array = self.values[self.valid]
        return known


@dataclass(frozen=True)
class DeviceDictionary:
    """A dictionary-encoded column: codes on the device, values on the host.

    `codes` are the positions of the values of the rows: int32, shape (rows,), -1 for null. `values` may contain strings
    that occur in no row, as in an Arrow dictionary.
    """

    codes: Array
    values: pa.Array

    def __len__(self) -> int:
        return len(self.codes)

    def used(self, backend: Backend) -> Any:
        """Return flags of the values that occur in a row: bool, on the host."""
        found = backend.to_host(backend.xp.unique(self.codes))
        mask = np.zeros(len(self.values), bool)
        mask[found[found >= 0]] = True
        return mask

    def missing(self, backend: Backend) -> Array:
        """Return flags of the null rows: bool, shape (rows,)."""
        is_null = np.append(np.asarray(self.values.is_null()), True)  # position -1 is the last entry
        return backend.xp.take(backend.to_device(is_null), self.codes)

    def trim(self, backend: Backend, keep_unused: bool = False) -> DeviceDictionary:
        """Return the same rows with nulls removed from the values, and unused values too unless they are kept."""
        keep = np.asarray(self.values.is_valid())
        if not keep_unused:
            keep = keep & self.used(backend)
        places = np.append(np.where(keep, np.cumsum(keep) - 1, -1), -1).astype("int32")
        return DeviceDictionary(
            backend.xp.take(backend.to_device(places), self.codes), self.values.filter(pa.array(keep))
        )


DeviceColumn = DeviceNumbers | DeviceDictionary


def text_codes(series: Any, backend: DeviceBackend) -> tuple[Array, Any]:
    """Return the position of each row's text in the distinct texts (int32; -1: null), and those as a Series."""
    codes, found = series.factorize()
    # cuDF's codes are int64, but its columns have fewer than 2^31 rows.
    return codes.astype("int32"), backend.frame.Series(found)


def has_texts(column: Any) -> bool:
    """Return whether a Series, DeviceNumbers or DeviceDictionary contains texts."""
    if isinstance(column, DeviceNumbers):
        return False
    return isinstance(column, DeviceDictionary) or column.dtype.kind not in "biufM"


class DeviceText:
    """A text column of a table on a device: flags of the missing texts, for the report. The texts are not stored.

    It implements the methods of `pyarrow.ChunkedArray` that a table without derived columns uses. `missing`: bool,
    shape (rows,).
    """

    def __init__(self, missing: Array, backend: Backend) -> None:
        self.missing, self._backend = missing, backend

    def __len__(self) -> int:
        return len(self.missing)

    @property
    def null_count(self) -> int:
        """The number of rows without a text."""
        return int(self.missing.sum())

    def filter(self, mask: pa.Array) -> DeviceText:
        """Return the rows where `mask` is true."""
        return DeviceText(self.missing[self._backend.to_device(np.asarray(mask))], self._backend)

    def slice(self, offset: int, length: int) -> DeviceText:
        """Return `length` rows from row `offset` on."""
        return DeviceText(self.missing[offset : offset + length], self._backend)


def to_micros(ticks: Array, unit: str, xp: ArrayNamespace) -> Array:
    """Return int64 microseconds: finer units are rounded down, values out of range become NAT."""
    if unit == "ns":
        return xp.where(ticks == NAT, NAT, ticks // 1_000)
    by = 1_000_000 // TICKS_PER_SECOND[unit]
    limit = (2**63 - 1) // by
    return xp.where((ticks > limit) | (ticks < -limit), NAT, ticks * by)


def strings(array: pa.Array) -> pa.StringArray:
    """Return Arrow texts of any string type as ``string``."""
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    return plain.cast(pa.string())

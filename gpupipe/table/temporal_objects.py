"""Times as objects of Python and NumPy: exact conversion of single values, and of sequences with several types."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from gpupipe.table.schema import NAT
from gpupipe.units import DAY_US, epoch_us

_UNITS_US = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
# The years -32767 to 32767, whose texts Arrow writes.
_FIRST_WRITTEN, _LAST_WRITTEN = (int(np.datetime64(each, "us").astype(np.int64)) for each in ("-32767", "32768"))
_LAST_WRITTEN -= 1
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def numpy_us(value: np.datetime64) -> int:
    """Return a ``datetime64`` in microseconds since 1970-01-01 UTC, rounded down; `NAT` if int64 cannot hold it.

    >>> numpy_us(np.datetime64("1969-12-31T23:59:59.999999999")), numpy_us(np.datetime64(2**62, "s")) == NAT
    (-1, True)
    """
    unit, count = np.datetime_data(value.dtype)
    ticks = int(value.astype(np.int64))
    if ticks == NAT or unit == "generic":
        return NAT
    ticks *= count
    if unit in ("Y", "M"):
        year, month = divmod(ticks * (12 if unit == "Y" else 1), 12)
        era, year = divmod(year + 1970 - 400, 400)  # a year from 400 to 799, which Python's dates have
        found = (date(year + 400, month + 1, 1).toordinal() - _EPOCH_DAY + era * 146_097) * DAY_US
    elif unit in ("W", "D"):
        found = ticks * DAY_US * (7 if unit == "W" else 1)
    elif unit in _UNITS_US:
        found = ticks * _UNITS_US[unit]
    else:
        found = ticks // {"ns": 1_000, "ps": 10**6, "fs": 10**9, "as": 10**12}[unit]
    return found if NAT < found < 2**63 else NAT


def object_us(value: Any) -> int:
    """Return a date, a datetime of Python or pandas, or a ``datetime64`` in microseconds, like `numpy_us`."""
    if isinstance(value, np.datetime64):
        return numpy_us(value)
    if not isinstance(value, datetime):
        return int(value.toordinal() - _EPOCH_DAY) * DAY_US
    if value != value:  # NaT of pandas
        return NAT
    return epoch_us(value)


def uniform_times(values: Any) -> Any:
    """Return a sequence in which Arrow finds each time exactly; other sequences unchanged.

    Arrow derives the type of a sequence from its first values, so that a datetime after a date loses its hours. It
    wraps the days of NumPy, and refuses its hours and offsets with seconds.
    """
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return _with_unit_of_arrow(np.asarray(values))
    if not isinstance(values, list | tuple) and not _is_object(dtype):
        return values
    kinds = {kind for kind in map(type, values) if issubclass(kind, date | np.datetime64)}
    if not kinds or (kinds == {date} and not any(isinstance(value, str) for value in values)):
        return values
    found = _times_or_texts(values)
    return values if found is None else found


def with_uniform_times(frame: Any) -> Any:
    """Return a pandas.DataFrame whose columns of times are as `uniform_times` returns them."""
    exact = {}
    for at, dtype in enumerate(frame.dtypes):
        column = frame.iloc[:, at]
        if _is_object(dtype) and (found := uniform_times(column)) is not column:
            exact[frame.columns[at]] = found
        elif (offset := getattr(getattr(dtype, "tz", None), "utcoffset", None)) and _has_seconds(offset(None)):
            exact[frame.columns[at]] = column.dt.tz_convert(None)
    if not exact:
        return frame
    import pandas as pd

    for name, found in exact.items():
        exact[name] = pd.array(found, pd.ArrowDtype(found.type)) if hasattr(found, "type") else found
    return frame.assign(**exact)


def _is_object(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _has_seconds(offset: timedelta | None) -> bool:
    """Return whether Arrow refuses an offset; it is None for a zone with several."""
    return offset is not None and bool(offset % timedelta(minutes=1))


def _with_unit_of_arrow(values: Any) -> Any:
    unit, count = np.datetime_data(values.dtype)
    if unit in ("s", "ms", "us", "ns") and count == 1:
        return values
    most = {"Y": 10**6, "M": 10**7, "W": 10**8, "D": 10**9, "h": 10**10, "m": 10**12}.get(unit, 2**63 - 1) // count
    ticks = values.astype(np.int64)
    known = np.where((ticks > most) | (ticks < -most), np.datetime64("NaT"), values)  # or the next line would wrap
    return known.astype("datetime64[s]" if unit in "YMWDhm" else "datetime64[ns]")


def _times_or_texts(values: Sequence[Any]) -> Any:
    """Return times as ``timestamp[us]``, or as texts if there are texts too; None if there are other values."""
    import pyarrow as pa

    found: list[Any] = []
    has_texts = False
    for value in values:
        if isinstance(value, date | np.datetime64):
            micros = object_us(value)
            found.append(None if micros == NAT else micros)
        elif value is None or value != value:
            found.append(None)
        elif isinstance(value, str):
            has_texts = True
            found.append(value)
        else:
            return None
    if has_texts:
        return [each if each is None or isinstance(each, str) else iso_text(each) for each in found]
    return pa.array(found, pa.int64()).view(pa.timestamp("us"))


def iso_text(micros: int) -> str:
    """Return a time as Arrow writes it: ISO 8601 with a blank, and no text of years outside -32767 to 32767."""
    if not _FIRST_WRITTEN <= micros <= _LAST_WRITTEN:
        return f"<value out of range: {micros}>"
    text = str(np.datetime64(micros, "us")).replace("T", " ")
    return text if text[0] != "-" else f"-{text[1:].zfill(26)}"  # NumPy writes the years before 0 with three digits

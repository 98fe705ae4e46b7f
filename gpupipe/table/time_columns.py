"""Encoding of time stamps, from times, text or numbers, to int64 microseconds since 1970-01-01 UTC."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError
from gpupipe.table.schema import NAT
from gpupipe.table.string_columns import as_dictionary, refuse, used_texts
from gpupipe.table.time_formats import declare_texts, guess_format, micros

MICROS = pa.timestamp("us")
UNITS = {
    "s": (1_000_000, 1),
    "ms": (1_000, 1),
    "us": (1, 1),
    "ns": (1, 1_000),
}  # factor and divisor to get microseconds


def as_times(name: str, column: pa.ChunkedArray, time_format: str | None) -> pa.ChunkedArray:
    """Return `column` as Arrow ``timestamp[us]``.

    Parameters
    ----------
    name : str
        For messages.
    column : pyarrow.ChunkedArray
        Time stamps, dates, text, or numbers.
    time_format : str, optional
        A ``strptime`` pattern for text, or a unit (``s``, ``ms``, ``us``, ``ns``) for numbers.

    Raises
    ------
    SchemaError
        If a text is not a time, or numbers have no unit.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False).cast(MICROS)
    if pa.types.is_date(kind):
        return column.cast(MICROS, safe=False)
    if pa.types.is_null(kind):
        return column.cast(MICROS)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _from_numbers(name, column, time_format)
    return _parse(name, as_dictionary(column), time_format)


def _from_numbers(name: str, column: pa.ChunkedArray, unit: str | None) -> pa.ChunkedArray:
    if unit not in UNITS:
        raise SchemaError(
            f"expected a unit for the times in column {name!r}, which contains numbers",
            fix=f"declare schema: {{{name}: {{kind: datetime, format: s}}}}, with one of {', '.join(UNITS)}",
            names=[name],
        )
    times, by = UNITS[unit]
    try:
        if pa.types.is_integer(column.type):
            micros = pc.divide(pc.multiply_checked(column.cast(pa.int64()), times), by)
        else:
            exact = pc.round(pc.multiply(column.cast(pa.float64()), times / by))
            micros = pc.if_else(pc.is_nan(exact), pa.scalar(None, pa.float64()), exact).cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"cannot convert the numbers in column {name!r} to times in {unit!r}: {error}",
            fix="correct the unit, or the data",
            names=[name],
        ) from None
    return micros.cast(MICROS)


def _parse(name: str, column: pa.ChunkedArray, time_format: str | None) -> pa.ChunkedArray:
    values = {v for v in used_texts(column) if v.strip()}
    time_format = time_format or guess_format(values) or ("" if not values else None)
    if time_format is None:
        raise unknown_format(name, values)
    parsed = {v: micros(v, time_format) for v in values}
    bad = sorted(v for v, t in parsed.items() if t is None)
    if bad:
        raise refuse(name, column, bad, f"a time in the format {time_format!r}")
    chunks = [
        pa.array([parsed.get(v) if v is not None else None for v in chunk.dictionary.to_pylist()], pa.int64())
        .take(chunk.indices)
        .cast(MICROS)
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, MICROS)


def unknown_format(name: str, values: set[str]) -> SchemaError:
    """Return the error for a text column that matches no known time format."""
    return SchemaError(
        f"no known time format matches all values of column {name!r}; found {sorted(values)[:3]}",
        fix=declare_texts(name, sorted(values))
        or f"declare the format, such as source.schema: {{{name}: {{kind: datetime, format: '%d.%m.%Y %H:%M'}}}}",
        names=[name],
    )


def infer_format(column: pa.ChunkedArray) -> str | None:
    """Return the time format of a text column; it is frozen for later tables."""
    if not is_text(column.type):
        return None
    return guess_format({v for v in used_texts(as_dictionary(column)) if v.strip()})


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a string type, plain or dictionary-encoded."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def write_times(column: pa.ChunkedArray, out: npt.NDArray[np.int64]) -> None:
    """Write ``timestamp[us]`` to `out`, int64, shape (rows,); null becomes NAT."""
    start = 0
    for chunk in column.chunks:
        stop = start + len(chunk)
        values: Any = chunk.cast(pa.int64())
        out[start:stop] = pc.fill_null(values, NAT).to_numpy(zero_copy_only=False)
        start = stop

"""Encoding of time stamps, from times, text or numbers, to int64 microseconds since 1970-01-01 UTC."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.arrow_numpy import scalar, to_numpy
from gpupipe.errors import SchemaError
from gpupipe.table.exact_values import is_number
from gpupipe.table.schema import NAT, expected_time
from gpupipe.table.string_columns import as_dictionary, refuse, used_texts
from gpupipe.table.time_formats import ISO, declaration, declare_numbers, declare_texts, describe_readings
from gpupipe.table.time_texts import ReadTime, is_pattern, reader_of
from gpupipe.units import TICKS_PER_SECOND, iso_us

MICROS = pa.timestamp("us")


def as_micros(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, int]:
    """Return a column of time stamps or dates as ``timestamp[us]`` in UTC, and how many times it cannot hold.

    These times, outside the years -290308 to 294246, become null. Nanoseconds are rounded down.
    """
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(column.type) else "ms"))
    unit, ticks = column.type.unit, _view(column, pa.int64())
    per_tick = 1_000_000 // TICKS_PER_SECOND[unit]
    if unit == "ns":
        found = pc.divide(ticks, 1_000)  # towards zero
        is_above = pc.greater(pc.multiply(found, 1_000), ticks)
        return _view(pc.subtract(found, is_above.cast(pa.int64())), MICROS), 0
    bounds = pc.min_max(ticks).as_py()
    limit = (2**63 - 1) // per_tick
    n_beyond = 0
    if bounds["min"] is not None and not -limit <= bounds["min"] <= bounds["max"] <= limit:
        fits = pc.and_(pc.less_equal(ticks, limit), pc.greater_equal(ticks, -limit))
        ticks = pc.if_else(fits, ticks, pa.scalar(None, pa.int64()))
        n_beyond = ticks.null_count - column.null_count
    return _view(ticks if per_tick == 1 else pc.multiply(ticks, per_tick), MICROS), n_beyond


def _view(column: pa.ChunkedArray, kind: pa.DataType) -> Any:
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)


def as_times(name: str, column: pa.ChunkedArray, time_format: str | None) -> pa.ChunkedArray:
    """Return `column` as Arrow ``timestamp[us]``; times that it cannot hold are null.

    - `name`: for messages
    - `column`: time stamps, dates, text, or numbers
    - `time_format`: a ``strptime`` pattern for text and integers, or a unit (``s``, ``ms``, ``us``, ``ns``) for
      numbers. By default, texts are ISO 8601.

    Raise SchemaError if a text is not a time, or numbers have no unit and no format.
    """
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return as_micros(column)[0]
    if pa.types.is_null(kind):
        return column.cast(MICROS)
    if is_number(kind) and not is_pattern(time_format):
        return _from_numbers(name, column, time_format)
    coded = as_dictionary(column)
    read = reader_of(time_format)
    bad = sorted(text for text in used_texts(coded) if text.strip() and read(text) is None)
    if bad:
        error = refuse(name, coded, bad, expected_time(time_format))
        if not time_format and (readings := describe_readings(bad[0])):
            error.fix = f"write the times in ISO 8601, or {declare_texts(name, bad[:1])} ({readings})"
        raise error
    chunks = [parsed_texts(chunk.dictionary, read).take(chunk.indices) for chunk in coded.chunks]
    return pa.chunked_array(chunks, MICROS)


def iso_times(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return a text column as ``timestamp[us]`` if it has texts and each is an ISO 8601 time; None for others.

    Readers of CSV files recognise these times, frames of `pandas.read_csv` have them as texts.
    """
    coded = as_dictionary(column)
    texts = used_texts(coded)
    if not texts or any(iso_us(text) is None for text in texts):
        return None
    return pa.chunked_array([parsed_texts(chunk.dictionary, iso_us).take(chunk.indices) for chunk in coded.chunks])


def read_as_times(name: str, time_format: str = "") -> str:
    """Return the note that texts of a column are read as times, and how to state it."""
    how = f"in the format {time_format!r}, the only one that fits all of them" if time_format else "of ISO 8601"
    stated = declaration(name, time_format)
    return f"column {name!r}: its texts are read as times {how}; {stated}, or categorical to keep them as texts"


def parsed_texts(texts: pa.Array, read: ReadTime) -> pa.Array:
    """Return texts as ``timestamp[us]``: null for blanks, for texts that cannot be read, and for times out of range."""
    found = [None if text is None or not text.strip() else read(text) for text in texts.to_pylist()]
    return pa.array([None if each == NAT else each for each in found], pa.int64()).view(MICROS)


def _from_numbers(name: str, column: pa.ChunkedArray, unit: str | None) -> pa.ChunkedArray:
    if unit is not None:
        return _of_unit(column, TICKS_PER_SECOND[unit])
    if column.null_count == len(column) or pc.all(pc.is_null(column, nan_is_null=True)).as_py():
        return pa.chunked_array([pa.nulls(len(column), MICROS)])  # a parser of files gives blanks this type
    bounds = pc.min_max(column).as_py()
    raise SchemaError(
        f"expected a unit for the times in column {name!r}, which contains numbers, or a format of their digits",
        fix=declare_numbers(name, bounds["min"], bounds["max"]),
        names=[name],
    )


def _of_unit(column: pa.ChunkedArray, per_second: int) -> pa.ChunkedArray:
    """Return numbers in a unit as times; null if int64 cannot hold them. `of_number` is the rule of a single one."""
    if not pa.types.is_floating(column.type):
        with suppress(pa.ArrowInvalid):  # fractions of decimals, and integers that float64 holds
            return as_micros(_view(column.cast(pa.int64()), pa.timestamp(_UNITS[per_second])))[0]
    exact = pc.round(pc.multiply(column.cast(pa.float64(), safe=False), 1e6 / per_second))
    fits = pc.and_(pc.less(exact, 2.0**63), pc.greater(exact, -(2.0**63)))  # false for NaN
    return _view(pc.if_else(fits, exact, pa.scalar(None, pa.float64())).cast(pa.int64()), MICROS)


_UNITS = {per_second: unit for unit, per_second in TICKS_PER_SECOND.items()}


def format_of(name: str, formats: Sequence[str] | None, texts: Sequence[str]) -> str | None:
    """Return the format of the texts of a column, None for ISO 8601.

    `formats`: the formats that every text has; None if there are no texts. `texts`: some of the texts. Raise
    SchemaError if no format fits all texts, or several, which give them different meanings.
    """
    if formats is None or ISO in formats:
        return None
    if len(formats) == 1:
        return formats[0]
    if formats:
        shown = max(texts, key=lambda text: len({reader_of(each)(text) for each in formats}))
        raise SchemaError(
            f"the texts of column {name!r} fit several time formats: {describe_readings(shown)}",
            fix=f"state which one it is: {declaration(name, formats[0])}, or {formats[1]!r}",
            names=[name],
        )
    shown = ", ".join(map(repr, texts[:3]))
    example = f"declare the format, such as source.schema: {{{name}: {{kind: datetime, format: '%d.%m.%Y %H:%M'}}}}"
    raise SchemaError(
        f"no known time format matches all values of column {name!r}; found {shown}",
        fix=declare_texts(name, texts) or example,
        names=[name],
    )


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
        out[start:stop] = to_numpy(pc.fill_null(values, scalar(NAT, values.type)))
        start = stop

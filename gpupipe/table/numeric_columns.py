"""Encoding of numbers, and of text with numbers, to float32 if that is exact, else float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.arrow_numpy import scalar, to_numpy
from gpupipe.table.number_texts import NumberFormat
from gpupipe.table.schema import LARGEST
from gpupipe.table.string_columns import ROWS_AT_ONCE, as_dictionary, refuse, used_texts
from gpupipe.table.time_columns import as_micros

EXACT_IN_FLOAT32 = 2**24  # every integer up to this is exact in float32
SMALL = (pa.int8(), pa.int16(), pa.uint8(), pa.uint16(), pa.float16(), pa.float32(), pa.bool_(), pa.null())


def storage_of(column: pa.ChunkedArray) -> str:
    """Return the block for a column of numbers: float32 if every value is exact in it, else float64."""
    if column.type in SMALL:
        return "float32"
    if pa.types.is_integer(column.type):
        bounds = pc.min_max(column).as_py()
        if bounds["min"] is None or (bounds["max"] <= EXACT_IN_FLOAT32 and bounds["min"] >= -EXACT_IN_FLOAT32):
            return "float32"
    return "float64"


def as_numbers(name: str, column: pa.ChunkedArray, number_format: str | None = None) -> pa.ChunkedArray:
    """Return `column` as Arrow numbers: text is parsed, blanks become null, durations and times of day become seconds.

    `number_format`: as in `gpupipe.table.schema.Column`; a text that is not in this format is null. Without it, raise
    SchemaError if a value is not a number; the message lists the values and their rows.
    """
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        return column.cast(pa.float64()) if pa.types.is_null(kind) else column
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8())
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        micros = column.cast(pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us"), safe=False)
        return pc.divide(micros.cast(pa.int64()).cast(pa.float64(), safe=False), 1e6)
    if pa.types.is_temporal(kind):
        return as_micros(column)[0].cast(pa.int64())
    coded = as_dictionary(column)
    return (
        _parse(name, coded) if number_format is None else _parse_written(coded, NumberFormat.from_json(number_format))
    )


def _parse_written(column: pa.ChunkedArray, number_format: NumberFormat) -> pa.ChunkedArray:
    """Return texts in a format as numbers, null for the others."""
    chunks = []
    for chunk in column.chunks:
        found = [None if text is None else number_format.parse(text) for text in chunk.dictionary.to_pylist()]
        chunks.append(pa.array(found, pa.float64(), from_pandas=True).take(chunk.indices))
    return pa.chunked_array(chunks, pa.float64())


def _parse(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = []
    for chunk in column.chunks:
        trimmed = pc.utf8_trim_whitespace(chunk.dictionary.cast(pa.string()))
        texts = pc.if_else(pc.equal(trimmed, scalar("", trimmed.type)), scalar(None, pa.string()), trimmed)
        numbers = parse_numbers(texts)
        bad = pc.and_(pc.is_valid(texts), pc.is_null(numbers))
        if pc.any(bad).as_py():
            wrong = [v for v in used_texts(column) if v.strip() and _number(v) is None]
            if wrong:
                raise refuse(name, column, wrong, "a number")
        chunks.append(numbers.take(chunk.indices))
    return pa.chunked_array(chunks, pa.float64())


def parse_numbers(texts: pa.Array) -> pa.Array:
    """Return `texts` as float64, null for a text that is not a number."""
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return pa.array([_number(t) for t in texts.to_pylist()], pa.float64())


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def has_unbounded(column: pa.ChunkedArray) -> bool:
    """Return whether a column has numbers that `write_numbers` replaces by NaN."""
    if not (pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        return False
    bounds = pc.min_max(column.cast(pa.float64())).as_py()
    return bounds["min"] is not None and max(-bounds["min"], bounds["max"]) > LARGEST


def write_numbers(column: pa.ChunkedArray, out: npt.NDArray[Any]) -> None:
    """Write a column of numbers to `out`, shape (rows,), float32 or float64.

    Null becomes NaN, and so do infinities and values too large for float32 arithmetic: the matrix is float32, and one
    infinite cell would make every sum over its column infinite or NaN.
    """
    start = 0
    for chunk in column.chunks:
        stop = start + len(chunk)
        values = to_numpy(chunk)
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(out[start:stop], values, casting="unsafe")
        if values.dtype.kind == "f":
            _drop_unbounded(out[start:stop])
        start = stop


def _drop_unbounded(values: npt.NDArray[Any]) -> None:
    for low in range(0, len(values), ROWS_AT_ONCE):
        part = values[low : low + ROWS_AT_ONCE]
        beyond = np.abs(part) > LARGEST
        if beyond.any():
            part[beyond] = np.nan

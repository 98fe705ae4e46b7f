"""Conversion of Arrow types to the plain types that gpupipe uses.

text                   string, large string, string view, UTF-8 binary   dictionary<int32, string>
numbers                integer, float, boolean                           unchanged
other numbers          decimal, half float, uint64 above int64           float64 (half: float32)
times                  date and timestamp, any zone and unit             timestamp[us], UTC
time of day, duration                                                    float64, seconds
null                   only nulls                                        float64, after the files are combined
unusable               list, struct, map, other binary                   dropped; an error if requested by name
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import GpupipeError
from gpupipe.io.missing_values import TEXT
from gpupipe.table.time_columns import as_micros
from gpupipe.units import TICKS_PER_SECOND

BEYOND_INT64 = "integers outside the int64 range, read as float64"
BEYOND_MICROS = "outside the years -290308 to 294246, read as null"


class UnusableColumn(GpupipeError):
    """Raised for a column of an unsupported type; the message describes its content. Readers always catch it."""


def plain_column(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    """Return a column converted to a plain type, and a note about the conversion, often empty.

    Raises
    ------
    UnusableColumn
        If there is no plain type for the column.
    """
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        return plain_column(pa.chunked_array([pc.run_end_decode(chunk) for chunk in column.chunks], kind.value_type))
    if isinstance(kind, pa.BaseExtensionType):
        return plain_column(pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type))
    if pa.types.is_dictionary(kind):
        return _from_dictionary(column)
    if is_text(kind):
        return column.cast(pa.string()).dictionary_encode(), ""
    if is_bytes(kind):
        return _text_in_bytes(column.cast(pa.binary()).dictionary_encode()), ""
    if pa.types.is_temporal(kind):
        return _from_temporal(column)
    return _from_number(column)


def is_text(kind: pa.DataType) -> bool:
    """Return True if the Arrow type is a string in any layout."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return True if the Arrow type is binary in any layout."""
    types = pa.types
    plain = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(plain or types.is_binary_view(kind) or types.is_fixed_size_binary(kind))


def is_nested(kind: pa.DataType) -> bool:
    """Return True if the Arrow type is a list, struct, map or union, which tables do not support."""
    return bool(pa.types.is_nested(kind)) and not pa.types.is_run_end_encoded(kind)


def _from_dictionary(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    kind = column.type
    if kind == TEXT:
        return column, ""
    if is_text(kind.value_type):
        chunks = [_dictionary(chunk.indices, chunk.dictionary.cast(pa.string())) for chunk in column.chunks]
        return pa.chunked_array(chunks, TEXT), ""
    if is_bytes(kind.value_type):
        return _text_in_bytes(column), ""
    return plain_column(column.cast(kind.value_type))


def _text_in_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        chunks = [_dictionary(c.indices, c.dictionary.cast(pa.binary()).cast(pa.string())) for c in column.chunks]
    except pa.ArrowInvalid:
        raise UnusableColumn("binary values that are not UTF-8") from None
    return pa.chunked_array(chunks, TEXT)


def _dictionary(indices: pa.Array, levels: pa.StringArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), levels)


def _from_number(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    kind = column.type
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64()), ""
    if pa.types.is_float16(kind):
        return column.cast(pa.float32()), ""
    if pa.types.is_uint64(kind):
        fits = (pc.max(column).as_py() or 0) < 2**63
        return column.cast(pa.int64() if fits else pa.float64(), safe=False), "" if fits else BEYOND_INT64
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
        return column, ""
    raise UnusableColumn(f"{kind} values")


def _from_temporal(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        found, n_beyond = as_micros(column)
        return found, f"{n_beyond:,} time{'s' * (n_beyond != 1)} {BEYOND_MICROS}" if n_beyond else ""
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        integers = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        seconds = pc.divide(_view(column, integers).cast(pa.float64(), safe=False), float(TICKS_PER_SECOND[kind.unit]))
        return seconds, "a duration, read as seconds" if pa.types.is_duration(kind) else (
            "a time of day, read as seconds since midnight"
        )
    raise UnusableColumn(f"{kind} values")


def _view(column: pa.ChunkedArray, kind: pa.DataType) -> Any:
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)

"""Conversion of Arrow types to the plain types that gpupipe uses.

text                   string, large string, string view, UUID           dictionary<int32, string>
binary                 UTF-8; other values of up to 64 bytes             text; hexadecimal text, 0x01ff
numbers                integer, float, decimal, boolean                  unchanged (half float: float32)
times                  date and timestamp, any zone and unit             timestamp[us], UTC
time of day, duration                                                    float64, seconds
null                   only nulls                                        float64, after the files are combined
unusable               list, struct, map                                 dropped; an error if requested by name
                       longer binary                                     dropped; hexadecimal text if requested by name
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import GpupipeError
from gpupipe.io.missing_values import TEXT, relabel
from gpupipe.table.exact_texts import bytes_text, uuid_text
from gpupipe.table.exact_values import SHORT_BYTES, is_number
from gpupipe.table.time_columns import MICROS
from gpupipe.units import TICKS_PER_SECOND

LONG_BYTES = f"binary values that are not UTF-8 and longer than {SHORT_BYTES} bytes"
BEYOND_MICROS = "times after the year 294246, read as null"


class UnusableColumn(GpupipeError):
    """Raised for a column of an unsupported type; the message describes its content. Readers always catch it."""


def plain_column(column: pa.ChunkedArray, is_named: bool = False) -> tuple[pa.ChunkedArray, str]:
    """Return a column converted to a plain type, and a note about the conversion, often empty.

    Numbers keep their type, with every digit: what is encoded as a number becomes float64 only then.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
    is_named : bool
        Whether the column is requested by name, so that binary values of any length are read.

    Raises
    ------
    UnusableColumn
        If there is no plain type for the column.
    """
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        decoded = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return plain_column(pa.chunked_array(decoded, kind.value_type), is_named)
    if isinstance(kind, pa.BaseExtensionType):
        stored = pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
        return (uuid_column(stored), "") if kind.extension_name == "arrow.uuid" else plain_column(stored, is_named)
    if pa.types.is_dictionary(kind):
        return _from_dictionary(column, is_named)
    if is_text(kind):
        return column.cast(pa.string()).dictionary_encode(), ""
    if is_bytes(kind):
        return _text_in_bytes(column.cast(pa.binary()).dictionary_encode(), is_named), ""
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


def uuid_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return UUIDs (fixed_size_binary[16]) as text in their canonical form."""
    return _relabelled(column.cast(pa.binary()).dictionary_encode(), uuid_text)


def _from_dictionary(column: pa.ChunkedArray, is_named: bool) -> tuple[pa.ChunkedArray, str]:
    kind = column.type
    if kind == TEXT:
        return column, ""
    if is_text(kind.value_type):
        chunks = [_dictionary(chunk.indices, chunk.dictionary.cast(pa.string())) for chunk in column.chunks]
        return pa.chunked_array(chunks, TEXT), ""
    if is_bytes(kind.value_type):
        return _text_in_bytes(column, is_named), ""
    return plain_column(column.cast(kind.value_type), is_named)


def _text_in_bytes(column: pa.ChunkedArray, is_named: bool) -> pa.ChunkedArray:
    try:
        chunks = [_dictionary(c.indices, c.dictionary.cast(pa.binary()).cast(pa.string())) for c in column.chunks]
    except pa.ArrowInvalid:
        if not is_named and not all(has_short_values(chunk.dictionary) for chunk in column.chunks):
            raise UnusableColumn(LONG_BYTES) from None
        return _relabelled(column, bytes_text)
    return pa.chunked_array(chunks, TEXT)


def has_short_values(values: pa.Array) -> bool:
    """Return whether binary values are short enough for identifiers: at most `SHORT_BYTES` each."""
    return int(pc.max(pc.binary_length(values.cast(pa.binary()))).as_py() or 0) <= SHORT_BYTES


def _relabelled(column: pa.ChunkedArray, text_of: Callable[[bytes], str]) -> pa.ChunkedArray:
    """Return a dictionary column of bytes as text; equal texts are merged."""
    chunks = []
    for chunk in column.chunks:
        texts = [None if value is None else text_of(value) for value in chunk.dictionary.to_pylist()]
        chunks.append(relabel(_dictionary(chunk.indices, pa.array(texts, pa.string())), pa.array(texts, pa.string())))
    return pa.chunked_array(chunks, TEXT)


def _dictionary(indices: pa.Array, levels: pa.StringArray) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), levels)


def _from_number(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    kind = column.type
    if pa.types.is_float16(kind):
        return column.cast(pa.float32()), ""
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):  # Arrow has few functions for them
        return column.cast(pa.decimal128(kind.precision, kind.scale)), ""
    if pa.types.is_boolean(kind) or pa.types.is_null(kind) or is_number(kind):
        return column, ""
    raise UnusableColumn(f"{kind} values")


def _from_temporal(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _to_micros(_view(column, pa.timestamp(kind.unit)))
    if pa.types.is_date(kind):
        return _to_micros(column.cast(pa.timestamp("s" if pa.types.is_date32(kind) else "ms")))
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        integers = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        seconds = pc.divide(_view(column, integers).cast(pa.float64(), safe=False), float(TICKS_PER_SECOND[kind.unit]))
        return seconds, "a duration, read as seconds" if pa.types.is_duration(kind) else (
            "a time of day, read as seconds since midnight"
        )
    raise UnusableColumn(f"{kind} values")


def _to_micros(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    unit = column.type.unit
    if unit == "ns":  # truncated to microseconds
        return column.cast(MICROS, safe=False), ""
    try:
        return column.cast(MICROS), ""
    except pa.ArrowInvalid:
        limit = (2**63 - 1) // (1_000_000 // TICKS_PER_SECOND[unit])
        ticks = _view(column, pa.int64())
        fits = pc.and_(pc.less_equal(ticks, limit), pc.greater_equal(ticks, -limit))
        kept = pc.if_else(fits, ticks, pa.scalar(None, pa.int64()))
        return _view(kept, column.type).cast(MICROS), BEYOND_MICROS


def _view(column: pa.ChunkedArray, kind: pa.DataType) -> Any:
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)

"""Conversion of Arrow types to the plain types that gpupipe uses.

text                   string, large string, string view, UUID           dictionary<int32, string>
binary                 UTF-8; other values of up to 64 bytes             text; hexadecimal text, 0x01ff
numbers                integer, float, decimal, boolean                  unchanged (half float: float32)
times                  date and timestamp, any zone and unit             timestamp[us], UTC
time of day, duration                                                    float64, seconds
categories             dictionary of anything but text                   dictionary<int32, plain type of its values>
intervals and periods  pandas.interval, pandas.period                    text, as pandas writes them
null                   only nulls                                        float64, after the files are combined
unusable               list, struct, map                                 dropped; an error if requested by name
                       longer binary                                     dropped; hexadecimal text if requested by name
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import GpupipeError, SchemaError
from gpupipe.io.missing_values import TEXT, relabel
from gpupipe.names import count_noun
from gpupipe.table.exact_texts import bytes_text, uuid_text
from gpupipe.table.exact_values import SHORT_BYTES, is_number
from gpupipe.table.time_columns import as_micros
from gpupipe.units import TICKS_PER_SECOND

LONG_BYTES = f"binary values that are not UTF-8 and longer than {SHORT_BYTES} bytes"
PANDAS_TYPES = ("pandas.interval", "pandas.period")  # read as text


def describe_beyond(n_times: int) -> str:
    """Return the note about times that microseconds cannot hold."""
    return f"{count_noun(n_times, 'time')} outside the years -290308 to 294246, read as null"


class UnusableColumn(GpupipeError):
    """Raised for a column of an unsupported type; the message describes its content. Readers always catch it."""


def plain_column(column: pa.ChunkedArray, is_named: bool = False) -> tuple[pa.ChunkedArray, str]:
    """Return a column converted to a plain type, and a note about the conversion, often empty.

    Numbers keep their type, with every digit: what is encoded as a number becomes float64 only then.

    `is_named`: whether the column is requested by name, so that binary values of any length are read. Raise
    UnusableColumn if the column has no plain type.
    """
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        decoded = [pc.run_end_decode(chunk) for chunk in column.chunks]
        return plain_column(pa.chunked_array(decoded, kind.value_type), is_named)
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name in PANDAS_TYPES:
        return pa.chunked_array(list(map(_categories, column.chunks)), TEXT), ""
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
    if isinstance(kind.value_type, pa.BaseExtensionType) and kind.value_type.extension_name in PANDAS_TYPES:
        chunks = [_dictionary(c.indices, _texts(c.dictionary.to_pandas())) for c in column.chunks]
        return pa.chunked_array(chunks, TEXT), ""
    stored = pa.chunked_array([chunk.dictionary for chunk in column.chunks], kind.value_type)
    values, note = plain_column(stored, is_named)
    if pa.types.is_null(values.type):
        return column.cast(values.type), note
    is_text_now = values.type == TEXT  # such as UUIDs
    values = values.cast(pa.string()) if is_text_now else values
    dictionaries = _split(values, [len(chunk.dictionary) for chunk in column.chunks])
    pairs = zip(column.chunks, dictionaries, strict=True)
    if is_text_now:
        return pa.chunked_array([relabel(chunk, plain) for chunk, plain in pairs], TEXT), note
    chunks = [_dictionary(chunk.indices, plain) for chunk, plain in pairs]
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), values.type)), note


def _split(values: pa.ChunkedArray, lengths: Sequence[int]) -> list[pa.Array]:
    """Return consecutive values as one array for each of `lengths`."""
    whole, starts = pa.concat_arrays([*values.chunks, pa.array([], values.type)]), [0, *accumulate(lengths)]
    return [whole.slice(start, n) for start, n in zip(starts, lengths, strict=False)]


def _categories(values: pa.Array) -> pa.DictionaryArray:
    """Return values of a type of pandas as text; each distinct one is formatted once."""
    found = values.to_pandas().astype("category").cat
    codes = found.codes.to_numpy()
    return _dictionary(pa.array(codes, pa.int32(), mask=codes < 0), _texts(found.categories))


def _texts(values: Iterable[Any]) -> pa.StringArray:
    """Return values of a type of pandas as pandas writes them: ``(0.0, 1.5]``, ``2024-01``."""
    return pa.array([None if value is None or value != value else str(value) for value in values], pa.string())


def stated_categories(schema: pa.Schema) -> frozenset[str]:
    """Return the columns that pandas wrote as categories: in Parquet files, only those of text keep their type."""
    try:
        columns = (schema.pandas_metadata or {}).get("columns", ())
        return frozenset(each["name"] for each in columns if each["pandas_type"] == "categorical")
    except (ValueError, KeyError, TypeError, AttributeError):  # of another writer, or corrupt: no column is stated
        return frozenset()


def plain_categories(table: pa.Table) -> pa.Table:
    """Return a table whose categories, bytes and values of extension types are plain; others are unchanged.

    Raise SchemaError if one of them has no plain type.
    """
    columns = dict(zip(table.column_names, table.columns, strict=True))
    stated = stated_categories(table.schema)
    for name, column in columns.items():
        column = column.dictionary_encode() if name in stated and not pa.types.is_dictionary(column.type) else column
        kind = column.type
        if pa.types.is_dictionary(kind) or is_bytes(kind) or isinstance(kind, pa.BaseExtensionType):
            try:
                columns[name] = plain_column(column)[0]
            except UnusableColumn as error:
                what, fix = f"column {name!r} has {error}, which are not supported", "convert it, or drop it"
                raise SchemaError(what, fix=fix, names=[name]) from None
    return pa.table(columns) if columns else table


def import_pandas_types(schema: pa.Schema) -> bool:
    """Import the types of pandas that a schema has, so that Arrow knows them; return whether it had not known one."""
    names = {(field.metadata or {}).get(b"ARROW:extension:name", b"").decode("utf8", "replace") for field in schema}
    if names.isdisjoint(PANDAS_TYPES):
        return False
    import_module("pandas.core.arrays.arrow.extension_types")
    return True


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


def _dictionary(indices: pa.Array, levels: pa.Array) -> pa.DictionaryArray:
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
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        found, n_beyond = as_micros(column)
        if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):  # the default zone of ops on its times
            found = _view(found, pa.timestamp("us", kind.tz))
        return found, describe_beyond(n_beyond) if n_beyond else ""
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        integers = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        seconds = pc.divide(_view(column, integers).cast(pa.float64(), safe=False), float(TICKS_PER_SECOND[kind.unit]))
        return seconds, "a duration, read as seconds" if pa.types.is_duration(kind) else (
            "a time of day, read as seconds since midnight"
        )
    raise UnusableColumn(f"{kind} values")


def _view(column: pa.ChunkedArray, kind: pa.DataType) -> Any:
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)

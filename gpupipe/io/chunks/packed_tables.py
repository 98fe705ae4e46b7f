"""Tables that wait: in less memory, as the codes of texts are as narrow as there are levels, and in one chunk."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from gpupipe.io.missing_values import TEXT


def packed(table: pa.Table) -> pa.Table:
    """Return a table whose columns of text have int8 or int16 codes where these are enough."""
    return _each(table, lambda column: _with_codes(column, _narrowest(column)) if column.type == TEXT else column)


def unpacked(table: pa.Table) -> pa.Table:
    """Return the table that `packed` was given."""
    return _each(table, lambda column: _with_codes(column, pa.int32()) if _is_packed(column.type) else column)


def in_one_chunk(table: pa.Table) -> pa.Table:
    """Return a table with one chunk a column: each costs anew in every step. Codes must lie within their levels."""
    return table.unify_dictionaries().combine_chunks()


def _each(table: pa.Table, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> pa.Table:
    return pa.table([change(column) for column in table.columns], names=table.column_names)


def _is_packed(kind: pa.DataType) -> bool:
    return (
        pa.types.is_dictionary(kind) and kind.index_type in (pa.int8(), pa.int16()) and kind.value_type == pa.string()
    )


def _narrowest(column: pa.ChunkedArray) -> pa.DataType:
    n_levels = max((len(chunk.dictionary) for chunk in column.chunks), default=0)
    return pa.int8() if n_levels <= 2**7 else pa.int16() if n_levels <= 2**15 else pa.int32()


def _with_codes(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices.cast(kind, safe=False), chunk.dictionary, safe=False)
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(kind, pa.string()))

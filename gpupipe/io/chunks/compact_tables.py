"""Compact Arrow tables: dictionary codes as narrow as the levels allow, and one Arrow chunk per column."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from gpupipe.io.missing_values import TEXT


def narrow_codes(table: pa.Table) -> pa.Table:
    """Return the table with int8 or int16 codes in text columns with few levels."""
    return _each(table, lambda column: _with_codes(column, _narrowest(column)) if column.type == TEXT else column)


def widen_codes(table: pa.Table) -> pa.Table:
    """Return the table with int32 codes again."""
    return _each(table, lambda column: _with_codes(column, pa.int32()) if _is_packed(column.type) else column)


def merge_chunks(table: pa.Table) -> pa.Table:
    """Return the table with one Arrow chunk per column, as each chunk costs in every step. Codes must be valid."""
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

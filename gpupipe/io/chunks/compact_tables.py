"""Compact Arrow tables: dictionary codes as narrow as the levels allow, and one Arrow chunk per column."""

from __future__ import annotations

import pyarrow as pa

from gpupipe.io.missing_values import TEXT

NARROW = tuple(pa.dictionary(index, pa.string()) for index in (pa.int8(), pa.int16()))


def narrow_codes(table: pa.Table) -> pa.Table:
    """Return the table with int8 or int16 codes in text columns with few levels."""
    columns = [
        column.cast(_narrowest(column), safe=False) if column.type == TEXT else column for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def widen_codes(table: pa.Table) -> pa.Table:
    """Return the table with int32 codes again."""
    columns = [column.cast(TEXT) if column.type in NARROW else column for column in table.columns]
    return pa.table(columns, names=table.column_names)


def merge_chunks(table: pa.Table) -> pa.Table:
    """Return the table with one Arrow chunk per column, which makes later steps cheaper. Codes must be valid."""
    return table.unify_dictionaries().combine_chunks()


def _narrowest(column: pa.ChunkedArray) -> pa.DataType:
    n_levels = max((len(chunk.dictionary) for chunk in column.chunks), default=0)
    return NARROW[0] if n_levels <= 2**7 else NARROW[1] if n_levels <= 2**15 else TEXT

"""The texts of CSV files, once they are parsed: trimmed, what means 'missing' null, and numbers where they are that."""

from __future__ import annotations

from collections.abc import Mapping, Set

import pyarrow as pa

from gpupipe.readers.settings import CsvSettings
from gpupipe.readers.strings import NULL_VALUES, clean_texts

NUMBERS = (pa.int64(), pa.float64())


def cleaned(table: pa.Table, name: str, settings: CsvSettings) -> tuple[pa.Table, frozenset[pa.DataType]]:
    """Return the table with a column of text cleaned, and those of `NUMBERS` that hold all of its values then."""
    column, _ = clean_texts(table.column(name), [*NULL_VALUES, *settings.null_values], settings.strip)
    numbers = frozenset(kind for kind in NUMBERS if all(_holds(kind, chunk.dictionary) for chunk in column.chunks))
    return table.set_column(table.column_names.index(name), name, column), numbers


def narrowest(numbers: Set[pa.DataType]) -> pa.DataType | None:
    """Return the first of `NUMBERS` that is among these; None: the column is text."""
    return next((kind for kind in NUMBERS if kind in numbers), None)


def with_numbers(table: pa.Table, kinds: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the table with these columns of text as numbers of these types, which hold all of their values."""
    for name, kind in kinds.items():
        chunks = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in table.column(name).chunks]
        table = table.set_column(table.column_names.index(name), name, pa.chunked_array(chunks, kind))
    return table


def _holds(kind: pa.DataType, texts: pa.Array) -> bool:
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True

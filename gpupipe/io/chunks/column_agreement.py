"""Agreement of the chunks and files of a source on the columns and types that reading it at once would give.

A parser gives a column the first type in a list that fits all its values. If chunks differ, the last of their types in
that list is tried on all chunks, then the next one, until it fits all of them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import chain

import pyarrow as pa

from gpupipe.io.chunks.chunk import ChunkColumns, ChunkFacts
from gpupipe.io.concatenation import FileColumn
from gpupipe.io.formats.csv.text_columns import KINDS, choose_numbers
from gpupipe.io.missing_values import TEXT
from gpupipe.table.exact_values import LARGE_INTEGERS

CSV_KINDS = [
    pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), pa.timestamp("s"), pa.timestamp("ns"),
    pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC"), *LARGE_INTEGERS, pa.float64(),
    TEXT,
]  # fmt: skip
JSON_KINDS = [[pa.int64(), *LARGE_INTEGERS, pa.float64()], [pa.timestamp("s"), pa.string()]]


class NoAgreement(Exception):
    """Raised if chunks do not determine the types of their file, which must then be read as a whole."""


def agree_on_columns(
    chunks: Sequence[ChunkFacts], file_format: str, texts: Container[str], as_text: Sequence[str]
) -> ChunkColumns:
    """Return the types with which all chunks of a file can be read.

    `chunks` are those that have rows. `texts` are declared as text; `as_text` are text because they are text in another
    file. Raise NoAgreement if the chunks do not determine the types of the whole file.
    """
    if len(chunks) == 1 and not as_text:
        return chunks[0].columns
    names = dict.fromkeys(chain.from_iterable(chunk.columns.kinds for chunk in chunks))
    if not names.keys().isdisjoint(chain.from_iterable(chunk.unusable for chunk in chunks)):
        raise NoAgreement
    kinds = {name: TEXT if name in as_text else _kind(name, chunks, file_format) for name in names}
    held = {
        name: frozenset(KINDS).intersection(*(chunk.numbers.get(name, KINDS) for chunk in chunks))
        for name, kind in kinds.items()
        if kind == TEXT and file_format == "csv" and name not in as_text
    }
    return ChunkColumns(kinds, choose_numbers(held, texts))


def must_reread(chunk: ChunkFacts, columns: ChunkColumns) -> bool:
    """Return True if a chunk was read with types that differ from its file's; columns of only nulls are ignored."""
    return any(
        chunk.columns.kinds[name] != kind or chunk.columns.numbers.get(name) != columns.numbers.get(name)
        for name, kind in columns.kinds.items()
        if name in chunk.columns.kinds and name not in chunk.empty
    )


def describe_file(chunks: Sequence[ChunkFacts]) -> dict[str, FileColumn]:
    """Return the plain columns of a file, given the facts about its chunks with rows."""
    found: dict[str, FileColumn] = {}
    for chunk in chunks:
        for name, kind in zip(chunk.schema.names, chunk.schema.types, strict=True):
            known = found.get(name)
            if known is None or (known.is_empty and (name not in chunk.empty or pa.types.is_null(known.kind))):
                found[name] = FileColumn(kind, name in chunk.empty)
    return found


def _kind(name: str, chunks: Sequence[ChunkFacts], file_format: str) -> pa.DataType:
    kinds = {chunk.columns.kinds[name] for chunk in chunks if name in chunk.columns.kinds} - {pa.null()}
    if not kinds:
        return pa.null()
    refused = frozenset[pa.DataType]().union(*(chunk.refused.get(name, frozenset()) for chunk in chunks))
    if len(kinds) == 1 and not refused:
        return next(iter(kinds))
    order = _order(kinds, file_format)
    latest = max(order.index(kind) for kind in kinds)
    kind = next((kind for kind in order[latest:] if kind not in refused), None)
    if kind is None:
        raise NoAgreement
    return kind


def _order(kinds: set[pa.DataType], file_format: str) -> list[pa.DataType]:
    """Return the list of types that the parser tries, in order, which includes `kinds`."""
    orders = [CSV_KINDS] if file_format == "csv" else JSON_KINDS if file_format == "jsonl" else []
    order = next((order for order in orders if kinds <= set(order)), None)
    if order is None:
        raise NoAgreement
    return order

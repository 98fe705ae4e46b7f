"""Agreement between the chunks of a source: the columns, types and notes of reading all of it at once.

A parser gives a column the first type of a list that all its values have. So where chunks differ, the type that comes
last is tried on all of them, then the next, until none refuses it. Which type a column has in the end, and what is to
be said of it, is left to those who say it of whole tables: they are given a row for each file that stands for all of
its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.chunks.chunk import FileColumns, Kinds, ParsedChunk, PlainChunk, SourceColumns
from gpupipe.io.chunks.file_notes import FileNotes
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.concatenation import clashes, combine, mixed_note
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.filter import filter_rows
from gpupipe.io.formats.csv.text_columns import NUMBERS, choose_number_type
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.missing_values import TEXT
from gpupipe.io.notes import Notes
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import select_columns

CSV_KINDS = [
    pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), pa.timestamp("s"), pa.timestamp("ns"),
    pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC"), pa.float64(), TEXT,
]  # fmt: skip
JSON_KINDS = [[pa.int64(), pa.float64()], [pa.timestamp("s"), pa.string()]]


class NoAgreement(Exception):
    """The chunks of a file cannot be typed as the whole file would be; it must be read as a whole."""


def agree_on_columns(
    chunks: Sequence[ParsedChunk], file_format: str, texts: set[str], as_text: Sequence[str]
) -> FileColumns:
    """Return the columns of a file: the types that all its chunks can be read as.

    Parameters
    ----------
    chunks : sequence of ParsedChunk
        Those with rows.
    file_format : str
    texts : set of str
        Columns that are declared to be text.
    as_text : sequence of str
        Those that are text because they are in another file.

    Raises
    ------
    NoAgreement
        If the chunks do not determine the types of the whole file.
    """
    names = list(dict.fromkeys(name for chunk in chunks for name in chunk.kinds))
    if any(name in chunk.left_out for name in names for chunk in chunks):
        raise NoAgreement
    kinds = {name: TEXT if name in as_text else _kind(name, chunks, file_format) for name in names}
    numbers = {}
    for name, kind in kinds.items():
        if kind == TEXT and file_format == "csv" and name not in {*texts, *as_text}:
            held = frozenset(NUMBERS).intersection(*(chunk.numbers.get(name, NUMBERS) for chunk in chunks))
            if number := choose_number_type(held):
                numbers[name] = number
    return FileColumns(kinds, numbers)


def find_columns_to_reparse(chunk: ParsedChunk, columns: FileColumns) -> Kinds:
    """Return the columns whose type in a chunk differs from the file's, with the file's types."""
    return {
        name: columns.kinds[name]
        for name, kind in chunk.kinds.items()
        if kind != columns.kinds[name] and not pa.types.is_null(kind)
    }


def _kind(name: str, chunks: Sequence[ParsedChunk], file_format: str) -> pa.DataType:
    kinds = {chunk.kinds[name] for chunk in chunks if name in chunk.kinds} - {pa.null()}
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
    """Return the types that a parser tries, in its order, these among them."""
    orders = [CSV_KINDS] if file_format == "csv" else JSON_KINDS if file_format == "jsonl" else []
    order = next((order for order in orders if kinds <= set(order)), None)
    if order is None:
        raise NoAgreement
    return order


class ColumnAgreement:
    """The columns and notes of all files of a source together, once the chunks of each are plain.

    Parameters
    ----------
    source : TableSource
    files : sequence of SourceFile
        All of them, those without rows too.

    Attributes
    ----------
    notes : Notes
    """

    def __init__(self, source: TableSource, files: Sequence[SourceFile]) -> None:
        self.source, self.files = source, files
        self.wanted, self.notes = ColumnFilter(source), Notes()

    def report(self, file: SourceFile, parsed: Sequence[ParsedChunk], plain: Sequence[PlainChunk]) -> None:
        """Report the notes on a file, in the order of the files; raise the error of its first chunk that has one."""
        found = FileNotes()
        for chunk in parsed:
            self.wanted.pick(chunk.seen)
        known: list[ParsedChunk | PlainChunk] = [*parsed, *plain]
        for one in known:
            if one.error is not None:
                raise one.error
            found.include(one.notes)
        if file.format != "generator":
            found.report(file, self.notes)

    def find_mixed(self, stand_ins: Sequence[pa.Table], files: Sequence[SourceFile]) -> list[str]:
        """Return the columns to read as text in all CSV files because they are text in some, with a note."""
        mixed = clashes(stand_ins)
        if not mixed or any(file.format != "csv" for file in files):
            return []
        self.notes.say(mixed_note(mixed))
        return mixed

    def columns(self, stand_ins: Sequence[pa.Table], files: Sequence[SourceFile]) -> SourceColumns:
        """Return the columns of the source, given the sample row of each file with rows.

        Raises
        ------
        SchemaError
            If files do not go together, or a column that is asked for is absent.
        """
        if not files:
            raise DataError("there are no rows", where=mask(self.source.label), fix="check that it is the right file")
        partitions = HivePartitions(self.files)
        pairs = zip(stand_ins, files, strict=True)
        tables = [partitions.add_columns(table, file, self.wanted) for table, file in pairs]
        table = tables[0] if len(tables) == 1 else combine(tables, files, self.notes)
        if self.source.where:
            filter_rows(table, self.source.where)  # refuses what cannot be compared
        return SourceColumns(table.schema, select_columns(table, self.wanted, self.source).schema)


def make_sample_row(chunks: Sequence[PlainChunk]) -> pa.Table:
    """Return one row with the columns of a file: a value, or null where all its chunks have only nulls."""
    kinds = {name: kind for chunk in chunks for name, kind in chunk.kinds.items()}
    empty = {name for name in kinds if all(name in chunk.empty for chunk in chunks)}
    return pa.table({name: pa.nulls(1, kind) if name in empty else _value(kind) for name, kind in kinds.items()})


def _value(kind: pa.DataType) -> pa.Array:
    if kind == TEXT:
        return pa.array(["1"]).dictionary_encode()
    return pa.array([1], pa.int64()).cast(kind)

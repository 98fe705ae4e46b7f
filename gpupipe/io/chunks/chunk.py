"""A chunk of a source, and the facts about it that `gpupipe.io.chunks.chunk_reader` returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from gpupipe.io.file_streams import ByteRange
from gpupipe.io.files import SourceFile
from gpupipe.io.notes import Notes

Kinds = dict[str, pa.DataType]


@dataclass(frozen=True)
class SourceChunk:
    """Some rows of a source: those of `groups` or `span`, or else all rows of the file.

    Attributes
    ----------
    file : SourceFile
    groups : tuple of int, optional
        Row groups of a Parquet file, or stripes of an ORC file.
    span : (int, int), optional
        Bytes of a CSV or JSON lines file; or, of a generator, the first row and the one after the last.
    lines_are_rows : bool
        Whether each line of a CSV file is known to be a row: rows are found faster then.
    """

    file: SourceFile
    groups: tuple[int, ...] | None = None
    span: ByteRange | None = None
    lines_are_rows: bool = False

    @property
    def is_whole(self) -> bool:
        """True if the chunk is all of its file."""
        return self.groups is None and self.span is None

    @property
    def is_text(self) -> bool:
        """True if it is read by a parser that infers types from values."""
        return self.file.format in ("csv", "jsonl")


@dataclass(frozen=True)
class ChunkColumns:
    """The types that the columns of a file are read as.

    Attributes
    ----------
    kinds : dict of str to DataType
        As its parser types them; null where no row has a value.
    numbers : dict of str to DataType
        Columns of cleaned text that are converted to numbers, and to which.
    """

    kinds: Kinds = field(default_factory=dict)
    numbers: Kinds = field(default_factory=dict)


@dataclass(frozen=True)
class ChunkFacts:
    """The facts about a chunk that was read.

    Attributes
    ----------
    n_rows : int
    columns : ChunkColumns
        What its columns were read as.
    schema : pyarrow.Schema
        Of its rows.
    empty : frozenset of str
        The columns of its rows that have nothing but nulls.
    left_out : tuple of str
        Columns that are there, but of no use.
    numbers : dict of str to tuple of DataType
        For each column of text of a CSV file, the types of numbers that hold all of its values.
    refused : dict of str to frozenset of DataType
        The types that a column could not be read as.
    seen : tuple of str
        Every column that is there.
    notes : Notes
    failed : bool
        Whether the chunk could not be read by itself: its file must be read as a whole.
    """

    n_rows: int = 0
    columns: ChunkColumns = field(default_factory=ChunkColumns)
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    empty: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()
    numbers: dict[str, tuple[pa.DataType, ...]] = field(default_factory=dict)
    refused: dict[str, frozenset[pa.DataType]] = field(default_factory=dict)
    seen: tuple[str, ...] = ()
    notes: Notes = field(default_factory=Notes)
    failed: bool = False

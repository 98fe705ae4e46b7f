"""A chunk of a source, and the facts about it that each step of `gpupipe.io.chunks.chunk_steps` returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from gpupipe.errors import GpupipeError
from gpupipe.io.chunks.file_notes import FileNotes
from gpupipe.io.file_streams import ByteRange
from gpupipe.io.files import SourceFile

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


@dataclass(frozen=True)
class ParsedChunk:
    """The facts about a parsed chunk.

    Attributes
    ----------
    n_rows : int
    kinds : dict of str to DataType
        Its columns; null where no row has a value.
    left_out : tuple of str
        Columns that are there, but of no use.
    numbers : dict of str to frozenset of DataType
        Of each column of text of a CSV file, the types of numbers that hold all of its values.
    refused : dict of str to frozenset of DataType
        The types that a column could not be read as.
    seen : tuple of str
        Every column that is there.
    notes : FileNotes
    error : GpupipeError, optional
        Why it could not be read.
    """

    n_rows: int = 0
    kinds: Kinds = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    numbers: dict[str, frozenset[pa.DataType]] = field(default_factory=dict)
    refused: dict[str, frozenset[pa.DataType]] = field(default_factory=dict)
    seen: tuple[str, ...] = ()
    notes: FileNotes = field(default_factory=FileNotes)
    error: GpupipeError | None = None


@dataclass(frozen=True)
class FileColumns:
    """The columns of a file.

    Attributes
    ----------
    kinds : dict of str to DataType
        As they are parsed.
    numbers : dict of str to DataType
        Texts that are numbers once they are cleaned, and which.
    """

    kinds: Kinds
    numbers: Kinds


@dataclass(frozen=True)
class SourceColumns:
    """The columns of a source.

    Attributes
    ----------
    together : pyarrow.Schema
        Of all files together.
    final : pyarrow.Schema
        Of those that are asked for.
    """

    together: pa.Schema
    final: pa.Schema


@dataclass(frozen=True)
class PlainChunk:
    """The facts about a chunk whose columns are plain.

    Attributes
    ----------
    kinds : dict of str to DataType
    empty : frozenset of str
        The columns that have nothing but nulls.
    notes : FileNotes
    error : GpupipeError, optional
        Why a column could not be made plain.
    """

    kinds: Kinds = field(default_factory=dict)
    empty: frozenset[str] = frozenset()
    notes: FileNotes = field(default_factory=FileNotes)
    error: GpupipeError | None = None

"""Data classes of chunks: the rows to read, and the facts that `gpupipe.io.chunks.chunk_reader` returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from gpupipe.io.file_streams import ByteRange
from gpupipe.io.files import SourceFile
from gpupipe.io.notes import Notes

Kinds = dict[str, pa.DataType]


@dataclass(frozen=True)
class SourceChunk:
    """A chunk of a file: the rows of `groups` or `span`, or all rows.

    - `groups`: row groups of a Parquet file, or stripes of an ORC file
    - `span`: byte range of a CSV or JSON lines file; row range of a generator. The end is exclusive.
    - `lines_are_rows`: True if each line of a CSV file is known to be a row, which makes parsing faster
    """

    file: SourceFile
    groups: tuple[int, ...] | None = None
    span: ByteRange | None = None
    lines_are_rows: bool = False

    @property
    def is_whole(self) -> bool:
        """True if the chunk is the whole file."""
        return self.groups is None and self.span is None

    @property
    def is_text(self) -> bool:
        """True if the parser of the format infers types from values."""
        return self.file.format in ("csv", "jsonl")


@dataclass(frozen=True)
class ChunkColumns:
    """Types of the columns of a file.

    `kinds`: types of the parser; null if no row has a value. `numbers`: numeric types of cleaned text columns that are
    converted to numbers.
    """

    kinds: Kinds = field(default_factory=dict)
    numbers: Kinds = field(default_factory=dict)


@dataclass(frozen=True)
class ChunkFacts:
    """Facts about a chunk that was read.

    - `columns`: types with which the columns were read
    - `empty`: columns with only nulls
    - `unusable`: columns that the file has, but that are not usable
    - `numbers`: for each text column of a CSV file, the numeric types that fit all of its values
    - `refused`: types with which a column could not be read
    - `seen`: all columns of the file
    - `failed`: True if the chunk could not be read by itself, so that its file must be read as a whole
    """

    n_rows: int = 0
    columns: ChunkColumns = field(default_factory=ChunkColumns)
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    empty: frozenset[str] = frozenset()
    unusable: tuple[str, ...] = ()
    numbers: dict[str, tuple[pa.DataType, ...]] = field(default_factory=dict)
    refused: dict[str, frozenset[pa.DataType]] = field(default_factory=dict)
    seen: tuple[str, ...] = ()
    notes: Notes = field(default_factory=Notes)
    failed: bool = False

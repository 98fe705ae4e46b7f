"""Chunks of a source, read by the workers in the steps of `gpupipe.io.chunks.chunk_steps`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import DataError
from gpupipe.io.chunks.chunk import FileColumns, Kinds, ParsedChunk, PlainChunk, SourceChunk, SourceColumns
from gpupipe.io.chunks.chunk_steps import parse_chunk, reparse_chunk, to_final_chunk, to_plain_chunk
from gpupipe.io.chunks.column_agreement import (
    ColumnAgreement,
    NoAgreement,
    agree_on_columns,
    find_columns_to_reparse,
    make_sample_row,
)
from gpupipe.io.chunks.compact_tables import narrow_codes, widen_codes
from gpupipe.io.chunks.row_boundaries import RowScan, align_to_rows, scan_rows
from gpupipe.io.chunks.splittable_files import SplittableFile, find_splittable_files
from gpupipe.io.file_streams import ByteRange
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.csv.reader import declared_texts
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.settings import TableSource
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.units import MIB

CHUNK_BYTES = 64 * MIB  # of a file of text, or as Arrow holds it

# Packed rows, what is known of them, and what they are as plain columns if those of the file are these.
Read = tuple[pa.Table, ParsedChunk, FileColumns | None, PlainChunk]


@dataclass(frozen=True)
class ArrowChunk:
    """A chunk of a source: the handle of its packed rows, read as by `gpupipe.io.source_reader.read_arrow`."""

    rows: ResultHandle[pa.Table]
    n_rows: int


@dataclass(frozen=True)
class ArrowChunks:
    """The rows of a source in chunks.

    Attributes
    ----------
    chunks : list of ArrowChunk
        Those that have rows, in order; one at least.
    schema : pyarrow.Schema
        Of each of them.
    notes : list of str
        What was repaired or left out.
    whole : list of str
        The files that were read as one chunk though they are larger than one.
    skipped : str
        The note about rows with another number of fields, empty if there are none.
    """

    chunks: list[ArrowChunk]
    schema: pa.Schema
    notes: list[str]
    whole: list[str]
    skipped: str = ""


@dataclass
class _State:
    """A chunk: its rows, wherever they lie, and what is known of them, from step to step; `plain` as `columns`."""

    chunk: SourceChunk
    rows: Any = None
    parsed: ParsedChunk = field(default_factory=ParsedChunk)
    columns: FileColumns | None = None
    plain: PlainChunk = field(default_factory=PlainChunk)

    def let_go(self) -> Any:
        """Return the rows, for the last time."""
        rows, self.rows = self.rows, None
        return rows

    def is_plain_as(self, columns: FileColumns) -> bool:
        """Whether it is known what the chunk is if these are the columns of its file, in this order."""
        return self.columns is not None and _in_order(self.columns) == _in_order(columns)


class _File:
    """A file, and its chunks."""

    def __init__(self, cut: SplittableFile, most: int) -> None:
        self.cut, self.file = cut, cut.file
        self.chunks = [_State(chunk) for chunk in cut.chunks(most)]
        self.columns = FileColumns({}, {})

    @property
    def with_rows(self) -> list[_State]:
        """The chunks that have rows, once they were parsed."""
        return [state for state in self.chunks if state.parsed.n_rows]

    def agree(self, texts: set[str], as_text: Sequence[str]) -> bool:
        """Find out what the columns are, if that can be told of the chunks; return whether it can."""
        parsed = [state.parsed for state in self.with_rows]
        try:
            self.columns = agree_on_columns(parsed, self.file.format, texts, as_text)
        except NoAgreement:
            return False
        return True

    def stand_in(self) -> pa.Table:
        """Return a row that has the columns of the file."""
        return make_sample_row([state.plain for state in self.with_rows])


def read_chunks(
    source: TableSource, workers: Workers, n_chunks: int, files: Sequence[SourceFile] | None = None
) -> ArrowChunks:
    """Have the workers read a source.

    Parameters
    ----------
    source : TableSource
        Without a ``prepare`` hook, which needs all rows at once.
    workers : Workers
    n_chunks : int
        About so many, where the files can be cut; more where they would be large.
    files : sequence of SourceFile, optional
        Of the source, if they were listed already.

    Raises
    ------
    DataError
        If a file is absent, unreadable or damaged, or there are no rows.
    SchemaError
        If a column is absent or of no use, or differs between files.
    """
    return _Reading(source, workers, n_chunks, files).run()


class _Reading:
    """Takes all files through the steps."""

    def __init__(
        self, source: TableSource, workers: Workers, n_chunks: int, listed: Sequence[SourceFile] | None
    ) -> None:
        self.source, self.workers = source, workers
        found = find_splittable_files(source, files=listed)
        self.most = _most(sum(cut.n_bytes for cut in found), n_chunks)
        self.files = [_File(cut, self.most) for cut in found]
        self.texts = declared_texts(source)

    def run(self) -> ArrowChunks:
        self._cut_texts()
        self._parse(self.files)
        self._agree(self.files)
        self._make_plain(self.files)
        agreement = ColumnAgreement(self.source, [file.file for file in self.files])
        for file in self.files:
            agreement.report(file.file, [s.parsed for s in file.chunks], [s.plain for s in file.with_rows])
        files = [file for file in self.files if file.with_rows]
        names = [file.file for file in files]
        if mixed := agreement.find_mixed([file.stand_in() for file in files], names):
            self._agree(files, mixed)
            self._make_plain(files)
        columns = agreement.columns([file.stand_in() for file in files], names)
        whole = [f.file.path for f in files if f.chunks[0].chunk.is_whole and f.cut.n_bytes > 2 * self.most]
        notes = agreement.notes
        return ArrowChunks(self._finish(files, columns), columns.final, notes.lines(), whole, notes.skipped_line())

    def _cut_texts(self) -> None:
        """Split large text files at row ends, which the workers find."""
        spans = {file: file.cut.split_text(self.most) for file in self.files if file.cut.is_text}
        scans = {
            file: self.workers.map(_scan, [(file.cut, span) for span in own], ["finding rows"] * len(own))
            for file, own in spans.items()
            if len(own) > 1
        }
        for file, handles in scans.items():
            ends = align_to_rows(spans[file], self.workers.gather(handles))
            if ends is not None and len(ends.spans) > 1:
                file.chunks = [
                    _State(SourceChunk(file.file, span=span, lines_are_rows=ends.lines_are_rows)) for span in ends.spans
                ]

    def _parse(self, files: Sequence[_File]) -> None:
        states = [state for file in files for state in file.chunks]
        labels = [f"reading chunk {i + 1} of {len(states)}" for i in range(len(states))]
        handles = self.workers.map(_read, [(state.chunk, self.source) for state in states], labels)
        for state, handle in zip(states, handles, strict=True):
            state.rows = handle
        pa.scalar(0)  # loads pandas, as the first value of a process does: better while the workers read than later
        self._look(states)
        # What is wrong with a file is said of the file, as when it is read at once.
        self._read_whole([f for f in files if len(f.chunks) > 1 and any(state.parsed.error for state in f.chunks)])

    def _read_whole(self, files: Sequence[_File]) -> None:
        if files:
            for file in files:
                file.chunks = [_State(SourceChunk(file.file))]
            self._parse(files)

    def _look(self, states: Sequence[_State]) -> None:
        """Fetch what is known of the chunks."""
        asked = self.workers.map(_known, [(state.rows,) for state in states], ["what was read"] * len(states))
        for state, found in zip(states, self.workers.gather(asked), strict=True):
            state.parsed, state.columns, state.plain = found

    def _agree(self, files: Sequence[_File], as_text: Sequence[str] = ()) -> None:
        """Have columns read again until all chunks of a file have the same types."""
        while files:
            torn = [file for file in files if not file.agree(self.texts, as_text)]
            self._read_whole(torn)
            for file in torn:
                file.agree(self.texts, as_text)
            files = [file for file in files if self._read_again(file)]

    def _read_again(self, file: _File) -> bool:
        """Have the columns read again that a chunk has as another type than the file; return whether there are any."""
        wrong = [
            (state, kinds) for state in file.with_rows if (kinds := find_columns_to_reparse(state.parsed, file.columns))
        ]
        for state, kinds in wrong:
            label = f"reading {', '.join(kinds)} again"
            state.rows = self.workers.submit(_read_again, state.rows, state.chunk, self.source, kinds, label=label)
        self._look([state for state, _ in wrong])
        return bool(wrong)

    def _make_plain(self, files: Sequence[_File]) -> None:
        """Find out what the chunks are as plain columns: those are made again at last, rather than held till then."""
        states = [(file, state) for file in files for state in file.with_rows if not state.is_plain_as(file.columns)]
        given = [(state.rows, state.chunk, self.source, file.columns) for file, state in states]
        handles = self.workers.map(_plain, given, ["plain columns"] * len(given))
        for (_, state), plain in zip(states, self.workers.gather(handles), strict=True):
            state.plain = plain

    def _finish(self, files: Sequence[_File], columns: SourceColumns) -> list[ArrowChunk]:
        """Return the rows that pass the filter, with the columns of the source."""
        partitions = HivePartitions([file.file for file in self.files])
        states = [(file, state) for file in files for state in file.with_rows]
        heights = [state.parsed.n_rows for _, state in states]
        each = ((state.let_go(), state.chunk, self.source, file.columns, partitions, columns) for file, state in states)
        rows = self.workers.map(_final, each, ["the columns of the source"] * len(states))
        if self.source.where:
            heights = self.workers.gather(self.workers.map(_height, [(h,) for h in rows], ["rows left"] * len(rows)))
        if not any(heights):
            raise DataError("no row passes the filter", where=f"where: {self.source.where}", fix="loosen it")
        return [ArrowChunk(handle, n_rows) for handle, n_rows in zip(rows, heights, strict=True) if n_rows]


def _in_order(columns: FileColumns) -> list[Any]:
    return [*columns.kinds.items(), *columns.numbers.items()]


def _most(n_bytes: int, n_chunks: int) -> int:
    """Return the bytes of a chunk, so that there are `n_chunks`, or a multiple of it: all workers end together."""
    n_each = max(1, -(-n_bytes // (n_chunks * CHUNK_BYTES)))
    return max(1, -(-n_bytes // (n_chunks * n_each)))


def _scan(backend: Backend, cut: SplittableFile, span: ByteRange) -> RowScan:
    return scan_rows(cut.file.path, span, cut.quote, cut.delimiter)


def _read(backend: Backend, chunk: SourceChunk, source: TableSource) -> Read:
    table, parsed = parse_chunk(chunk, source)
    columns, plain = _alone(chunk, source, table, parsed)
    return narrow_codes(table), parsed, columns, plain


def _alone(
    chunk: SourceChunk, source: TableSource, table: pa.Table, parsed: ParsedChunk
) -> tuple[FileColumns | None, PlainChunk]:
    """Return the columns of the file if all of it is like this chunk, and what that is as plain ones."""
    if parsed.error is not None or not parsed.n_rows:
        return None, PlainChunk()
    try:
        columns = agree_on_columns([parsed], chunk.file.format, declared_texts(source), ())
    except NoAgreement:
        return None, PlainChunk()
    return columns, to_plain_chunk(chunk, source, table, columns)[1]


def _read_again(backend: Backend, read: Read, chunk: SourceChunk, source: TableSource, kinds: Kinds) -> Read:
    table, parsed = reparse_chunk(chunk, source, widen_codes(read[0]), read[1], kinds)
    return narrow_codes(table), parsed, *_alone(chunk, source, table, parsed)


def _known(backend: Backend, read: Read) -> tuple[ParsedChunk, FileColumns | None, PlainChunk]:
    return read[1:]


def _plain(backend: Backend, read: Read, chunk: SourceChunk, source: TableSource, columns: FileColumns) -> PlainChunk:
    return to_plain_chunk(chunk, source, widen_codes(read[0]), columns)[1]


def _final(
    backend: Backend,
    read: Read,
    chunk: SourceChunk,
    source: TableSource,
    of_file: FileColumns,
    partitions: HivePartitions,
    of_source: SourceColumns,
) -> pa.Table:
    table, _ = to_plain_chunk(chunk, source, widen_codes(read[0]), of_file)
    return narrow_codes(to_final_chunk(chunk, source, table, partitions, of_source))


def _height(backend: Backend, rows: pa.Table) -> int:
    return int(rows.num_rows)

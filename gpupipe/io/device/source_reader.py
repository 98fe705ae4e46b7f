"""Read a source into device memory with the backend's own readers; the host gets metadata and distinct strings only.

Sources that a device would read differently raise `UnsupportedOnDevice` and fall back to the host: see
`gpupipe.io.device.obstacles`.

One property depends on cuDF and can be verified on a GPU only: its Parquet and ORC readers return the same values as
Arrow's readers (dates as timestamps in seconds, timestamps with a zone in UTC).

A device does not report corrupt Parquet pages by their checksum, as the host does, nor times after the year 294246,
which are null on both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from gpupipe.backends.base import DeviceBackend
from gpupipe.errors import DataError
from gpupipe.io.chunks.chunk_reader import generate_rows
from gpupipe.io.chunks.parquet_stream import ParquetStream
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.device.filter import filter_columns, known_columns
from gpupipe.io.device.join import join_columns
from gpupipe.io.device.obstacles import guard_device_read, joined_tables
from gpupipe.io.file_changes import require_unchanged
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.input_files import InputFiles, data_files
from gpupipe.io.missing_values import clean_texts
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.settings import JoinedTable, TableSource
from gpupipe.table.device.encode import TextRules
from gpupipe.table.device.frame_columns import DeviceDictionary, DeviceNumbers
from gpupipe.table.schema import NULL_VALUES

Columns = dict[str, Any]


@dataclass(frozen=True)
class LoadedFrame:
    """A table in a backend's memory, with the files it was read from.

    - `columns`: input of `gpupipe.table.device.encode.encode_frame`. Files are in sorted order, rows in the order of
      the file.
    - `rules`: rules for its strings
    - `notes`: dropped columns; encoding adds further notes
    """

    columns: Columns
    rules: TextRules
    files: list[SourceFile]
    notes: Notes


def read_frame(
    source: TableSource,
    backend: DeviceBackend,
    tables: Mapping[str, JoinedTable] | None = None,
    files: InputFiles | None = None,
) -> LoadedFrame:
    """Read a table, and the tables joined to it, with the backend's own readers.

    `gpupipe.io.device.obstacles.require_plain` must have accepted them. `files` are the files of all tables, if already
    listed.

    Raise DataError or SchemaError as `gpupipe.io.join.read_joined`.
    """
    files = InputFiles.find(source, tables) if files is None else files
    loaded = _read_table(source, backend, files.source)
    for name, table in joined_tables(tables).items():
        loaded = _joined(loaded, name, table, _read_table(table, backend, files.tables[name]), backend)
    return loaded


def _read_table(source: TableSource, backend: DeviceBackend, files: Sequence[SourceFile]) -> LoadedFrame:
    wanted, notes = ColumnFilter(source), Notes()
    if source.generate:
        columns = _finish(generate_columns(source, wanted, backend), TextRules(), wanted, source, backend)
        return LoadedFrame(columns, TextRules(), list(files), notes)
    files = data_files(files)
    columns, rules = _read_all(files, wanted, source, backend, notes), text_rules(notes, source.strips_typed_files)
    return LoadedFrame(_finish(columns, rules, wanted, source, backend), rules, files, notes)


def _joined(
    left: LoadedFrame, name: str, joined: JoinedTable, right: LoadedFrame, backend: DeviceBackend
) -> LoadedFrame:
    ours, theirs = (known_columns(part.columns, part.rules, backend) for part in (left, right))
    columns, note = join_columns(ours, theirs, name, joined, backend)
    notes = Notes()
    notes.include(left.notes)
    notes.include(right.notes)
    notes.add(note)
    return LoadedFrame(columns, TextRules(), [*left.files, *right.files], notes)


def _finish(
    columns: Columns, rules: TextRules, wanted: ColumnFilter, source: TableSource, backend: DeviceBackend
) -> Columns:
    """Filter the rows, then select the columns."""
    if source.where:
        columns = filter_columns(columns, source.where, rules, backend)
        if not len(next(iter(columns.values()))):
            raise DataError("no row passes the filter", where=f"where: {source.where}", fix="loosen the filter")
    wanted.check(list(columns), mask(source.label))
    return {name: column for name, column in columns.items() if wanted.is_wanted(name)}


def _read_all(
    files: list[SourceFile], wanted: ColumnFilter, source: TableSource, backend: DeviceBackend, notes: Notes
) -> Columns:
    filled: list[SourceFile] = []
    layouts: list[Any] = []
    kinds: dict[str, pa.DataType] = {}
    for file in files:
        with open_file(file) as stream:
            schema, layout, n_rows = _footer(file, stream)
        names = usable_names(schema, file, wanted, notes)
        if n_rows:
            kinds = kinds or {name: schema.field(name).type for name in names}  # the same in all files
            filled.append(file)
            layouts.append(layout)
        else:
            notes.add(f"no rows in {mask(file.path)}")
    if not filled:
        raise DataError("there are no rows", where=mask(source.label), fix="check that this is the right file")
    typed = [name for name, kind in kinds.items() if not pa.types.is_null(kind)]
    are_alike = filled[0].format == "parquet" and all(layout.equals(layouts[0]) for layout in layouts[1:])
    frame = _together(filled, typed, backend, notes) if are_alike else _one_by_one(filled, typed, backend)
    return {name: device_column(name, kind, frame, backend) for name, kind in kinds.items()}


def _footer(file: SourceFile, stream: Any) -> tuple[pa.Schema, Any, int]:
    """Return the Arrow schema of a file, the format's own schema, and the number of rows."""
    if file.format == "orc":
        found = orc.ORCFile(stream)
        return found.schema, found.schema, found.nrows
    parquet = pq.ParquetFile(stream)
    groups = range(parquet.num_row_groups)  # some writers leave the row count of the file at 0
    return parquet.schema_arrow, parquet.schema, sum(parquet.metadata.row_group(i).num_rows for i in groups)


def _together(files: list[SourceFile], names: list[str], backend: DeviceBackend, notes: Notes) -> Any:
    """Return the rows of Parquet files with the same schema, read in one call to avoid the peak of a concatenation."""
    if len(files) == 1:
        return _one_by_one(files, names, backend)
    try:
        with ExitStack() as checks:
            for file in files:
                checks.enter_context(require_unchanged(file))
            return backend.read_columns("parquet", [file.path for file in files], names)
    except MemoryError:
        raise
    except Exception as error:  # errors of cuDF and Arrow have no common base class
        frame = _one_by_one(files, names, backend)  # raises an error that names the file
        reason = " ".join(str(error).split())[:300]
        notes.add(f"{len(files)} files were read one by one, which needs more memory; one call failed: {mask(reason)}")
        return frame


def _one_by_one(files: list[SourceFile], names: list[str], backend: DeviceBackend) -> Any:
    frames = []
    for file in files:
        with guard_device_read(file):
            frames.append(backend.read_columns(file.format, [file.path], names))
    return frames[0] if len(frames) == 1 else backend.frame.concat(frames, ignore_index=True)


def text_rules(notes: Notes, strip: bool) -> TextRules:
    """Return the rules for texts, which clean them as on the host; adds notes about missing values."""

    def read(name: str, texts: pa.StringArray) -> pa.StringArray:
        cleaned, gone = clean_texts(pa.chunked_array([texts.dictionary_encode()]), strip=strip)
        notes.add_missing(name, gone)
        return cleaned.cast(pa.string()).combine_chunks()

    return TextRules(read, NULL_VALUES)


def device_column(name: str, kind: pa.DataType, frame: Any, backend: DeviceBackend) -> Any:
    """Return a column of a frame; null columns are converted as on the host."""
    xp = backend.xp
    if pa.types.is_null(kind):
        return DeviceNumbers(xp.zeros(len(frame), "float64"), xp.zeros(len(frame), "bool"), pa.float64())
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):  # readers of a device drop it
        return replace(DeviceNumbers.of(frame[name], backend), type=pa.timestamp("us", kind.tz))
    return frame[name]


@dataclass
class FrameStream:
    """A Parquet source that a device reads in chunks.

    `notes`: dropped columns, complete after all chunks have been read; encoding adds further notes.
    """

    stream: ParquetStream
    backend: DeviceBackend
    notes: Notes = field(default_factory=Notes)

    @property
    def rules(self) -> TextRules:
        """Rules for the strings."""
        return text_rules(self.notes, self.stream.source.strips_typed_files)

    def columns(self) -> Iterator[Columns]:
        """Yield the columns of each non-empty chunk, in the form of `read_frame`.

        Raise DataError if a file cannot be read, or there are no rows; SchemaError if a column is missing.
        """
        source = self.stream.source
        wanted = ColumnFilter(self.stream.source)
        n_rows = 0
        for file in self.stream.files:
            chunks = [chunk.groups for chunk in self.stream.chunks if chunk.file is file]
            for columns in self._of_file(file, chunks, wanted):
                if source.where:
                    columns = filter_columns(columns, source.where, self.rules, self.backend)
                wanted.check(list(columns), mask(source.label))
                found = len(next(iter(columns.values())))
                n_rows += found
                if found:
                    yield {name: column for name, column in columns.items() if wanted.is_wanted(name)}
        if not n_rows:
            raise DataError("no row passes the filter", where=f"where: {source.where}", fix="loosen the filter")

    def _of_file(
        self, file: SourceFile, chunks: Sequence[tuple[int, ...] | None], wanted: ColumnFilter
    ) -> Iterator[Columns]:
        with open_file(file) as handle:
            schema = pq.read_schema(handle)
        names = usable_names(schema, file, wanted, self.notes)
        typed = [name for name in names if not pa.types.is_null(schema.field(name).type)]
        if not chunks:
            self.notes.add(f"no rows in {mask(file.path)}")
        for groups in chunks:
            with guard_device_read(file):
                frame = self.backend.read_columns("parquet", [file.path], typed, groups)
            if len(frame):
                yield {name: device_column(name, schema.field(name).type, frame, self.backend) for name in names}


def generate_columns(source: TableSource, wanted: ColumnFilter, backend: DeviceBackend) -> Columns:
    """Return the generated columns of a source, for `gpupipe.table.device.encode.encode_frame`.

    Raise DataError if there are no rows, because no customer has an event.
    """
    backend.note(f"{source.generate}: generated on the host, then copied to the device")
    table = generate_rows(source, wanted, (0, source.rows))
    if not table.num_rows:
        raise DataError("there are no rows", where=source.label, fix="set more rows")
    return {name: _moved(column, backend) for name, column in zip(table.column_names, table.columns, strict=True)}


def _moved(column: pa.ChunkedArray, backend: DeviceBackend) -> DeviceNumbers | DeviceDictionary:
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        coded = column.unify_dictionaries().combine_chunks()
        return DeviceDictionary(backend.to_device(np.asarray(coded.indices.fill_null(-1))), coded.dictionary)
    held = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    found, valid = held.fill_null(0).to_numpy(), np.asarray(column.is_valid())
    return DeviceNumbers(backend.to_device(found), backend.to_device(valid), column.type)

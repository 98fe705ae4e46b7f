"""Read a source into device memory with the backend's own readers; only metadata and distinct texts reach the host.

Sources that a device would read differently raise `UnsupportedOnDevice`, and the host reads them: see
`gpupipe.io.device.obstacles`.

Two things rest on cuDF and need a GPU to be proven: its Parquet and ORC readers return the values of Arrow's readers
(dates as timestamps in seconds, timestamps with a zone in UTC), and its CSV and JSON readers split rows and fields by
RFC 4180 and by plain JSON lines. Types, missing values and numbers in texts do not rest on it: see
`gpupipe.io.device.csv.reader` and `gpupipe.io.device.jsonl.reader`.

A device does not report two things: a corrupt Parquet page that has a checksum (the host verifies checksums), and a
time after the year 294246 (null on both).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from gpupipe.backends.base import DeviceBackend
from gpupipe.errors import DataError
from gpupipe.io.arrow_types import BEYOND_INT64
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.device.csv.reader import csv_columns
from gpupipe.io.device.datasets import generate_columns
from gpupipe.io.device.filter import filter_columns, known_columns
from gpupipe.io.device.join import join_columns
from gpupipe.io.device.jsonl.reader import json_columns
from gpupipe.io.device.obstacles import guard_device_read, joined_tables
from gpupipe.io.device.text_values import text_rules
from gpupipe.io.file_changes import require_unchanged
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.input_files import InputFiles, data_files
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.settings import JoinedTable, TableSource
from gpupipe.table.device.encode import TextRules
from gpupipe.table.device.frame_columns import DeviceNumbers

Columns = dict[str, Any]
LARGEST_INT64 = 2**63 - 1


@dataclass(frozen=True)
class LoadedFrame:
    """A table in a backend's memory, with its origin.

    Attributes
    ----------
    columns : dict of str to (Series, DeviceNumbers, TextCodes or DeviceDictionary)
        For `gpupipe.table.device.encode.encode_frame`. Rows: files in sorted order, rows as in the file.
    rules : TextRules
        What its texts mean.
    files : list of SourceFile
    notes : Notes
        What was left out; encoding says more.
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
    """Read a table that `gpupipe.io.device.obstacles.require_plain` allows with the backend's own readers.

    The others are joined to it.

    `files` are those of all tables, if they were listed already.

    Raises
    ------
    UnsupportedOnDevice
        If the host must read one of them.
    DataError, SchemaError
        As `gpupipe.io.join.read_joined`.
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
    if files[0].format == "csv":
        columns, rules = csv_columns(files, wanted, source, backend, notes)
    elif files[0].format == "jsonl":
        columns, rules = json_columns(files, wanted, source, backend, notes)
    else:
        columns, rules = _read_all(files, wanted, source, backend, notes), text_rules(notes)
    return LoadedFrame(_finish(columns, rules, wanted, source, backend), rules, files, notes)


def _joined(
    left: LoadedFrame, name: str, joined: JoinedTable, right: LoadedFrame, backend: DeviceBackend
) -> LoadedFrame:
    ours, theirs = (known_columns(part.columns, part.rules, backend) for part in (left, right))
    columns, remark = join_columns(ours, theirs, name, joined, backend)
    notes = Notes()
    notes.include(left.notes)
    notes.include(right.notes)
    notes.say(remark)
    return LoadedFrame(columns, TextRules(), [*left.files, *right.files], notes)


def _finish(
    columns: Columns, rules: TextRules, wanted: ColumnFilter, source: TableSource, backend: DeviceBackend
) -> Columns:
    """Filter the rows, then keep the columns that are asked for."""
    if source.where:
        columns = filter_columns(columns, source.where, rules, backend)
        if not len(next(iter(columns.values()))):
            raise DataError("no row passes the filter", where=f"where: {source.where}", fix="loosen it")
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
            kinds = kinds or {name: schema.field(name).type for name in names}  # the other files have the same
            filled.append(file)
            layouts.append(layout)
        else:
            notes.say(f"no rows in {mask(file.path)}")
    if not filled:
        raise DataError("there are no rows", where=mask(source.label), fix="check that it is the right file")
    typed = [name for name, kind in kinds.items() if not pa.types.is_null(kind)]  # readers differ in columns of nulls
    are_alike = filled[0].format == "parquet" and all(layout.equals(layouts[0]) for layout in layouts[1:])
    frame = _together(filled, typed, backend, notes) if are_alike else _one_by_one(filled, typed, backend)
    columns = {name: device_column(name, kind, frame, backend) for name, kind in kinds.items()}
    for name, column in columns.items():
        if isinstance(column, DeviceNumbers) and pa.types.is_uint64(kinds[name]) and pa.types.is_floating(column.type):
            notes.say(f"column {name!r} has {BEYOND_INT64}")
    return columns


def _footer(file: SourceFile, stream: Any) -> tuple[pa.Schema, Any, int]:
    """Return the Arrow schema of a file, the format's own schema, and the number of rows."""
    if file.format == "orc":
        found = orc.ORCFile(stream)
        return found.schema, found.schema, found.nrows
    parquet = pq.ParquetFile(stream)
    groups = range(parquet.num_row_groups)  # some writers leave the count of the whole file at 0
    return parquet.schema_arrow, parquet.schema, sum(parquet.metadata.row_group(i).num_rows for i in groups)


def _together(files: list[SourceFile], names: list[str], backend: DeviceBackend, notes: Notes) -> Any:
    """Return the rows of Parquet files of one schema, read in one call: no frame is held beside its concatenation."""
    if len(files) == 1:
        return _one_by_one(files, names, backend)
    try:
        with ExitStack() as checks:
            for file in files:
                checks.enter_context(require_unchanged(file))
            return backend.read_columns("parquet", [file.path for file in files], names)
    except MemoryError:
        raise
    except Exception as error:  # cuDF's and Arrow's errors have no ancestor in common, and name no file
        frame = _one_by_one(files, names, backend)  # names the file, if one is at fault
        reason = " ".join(str(error).split())[:300]
        notes.say(f"{len(files)} files were read one by one, with more memory; together: {mask(reason)}")
        return frame


def _one_by_one(files: list[SourceFile], names: list[str], backend: DeviceBackend) -> Any:
    frames = []
    for file in files:
        with guard_device_read(file):
            frames.append(backend.read_columns(file.format, [file.path], names))
    return frames[0] if len(frames) == 1 else backend.frame.concat(frames, ignore_index=True)


def device_column(name: str, kind: pa.DataType, frame: Any, backend: DeviceBackend) -> Any:
    """Return a column of a frame; numbers of a type that tables do not have as the host reads them."""
    xp = backend.xp
    if pa.types.is_null(kind):
        return DeviceNumbers(xp.zeros(len(frame), "float64"), xp.zeros(len(frame), "bool"), pa.float64())
    if not pa.types.is_uint64(kind.value_type if pa.types.is_dictionary(kind) else kind):
        return frame[name]
    numbers = DeviceNumbers.of(frame[name], backend)
    storage = "float64" if bool((numbers.values > LARGEST_INT64).any()) else "int64"
    return DeviceNumbers(numbers.values.astype(storage), numbers.valid, pa.from_numpy_dtype(storage))

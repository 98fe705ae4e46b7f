"""A source read by a backend's own readers into a frame, for a device: the host sees footers, headers and little texts.

Only what means the same there is read so (`gpupipe.readers.obstacles`); the rest is an `Obstacle`, and the host's.

Left to cuDF, and not to be proven without a GPU: that its Parquet and ORC readers give the values that Arrow's give
(dates as time stamps of seconds, time stamps with a zone in UTC), and that its CSV reader splits rows and fields as RFC
4180 says. Types, missing values and numbers in CSV are not left to it: see `gpupipe.readers.device_csv`.

Two things are not said on a device: a damaged page of Parquet that has a checksum (the host verifies it), and a time
beyond the year 294246 (it is read as null here too).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from gpupipe.backends.base import Backend
from gpupipe.errors import DataError
from gpupipe.readers.device_csv import csv_columns
from gpupipe.readers.device_filter import filter_columns
from gpupipe.readers.files import SourceFile, mask
from gpupipe.readers.notes import Notes
from gpupipe.readers.obstacles import data_files, reading_on_device, require_plain_files, require_plain_settings
from gpupipe.readers.plain import usable_names
from gpupipe.readers.read import BaseDir
from gpupipe.readers.settings import JoinedTable, TableSource
from gpupipe.readers.streams import opened
from gpupipe.readers.strings import NULL_VALUES, clean_texts
from gpupipe.readers.wanted import Wanted
from gpupipe.table.encode_frame import TextRules

Columns = dict[str, Any]


@dataclass(frozen=True)
class LoadedFrame:
    """A table in a backend's memory, and where it is from.

    Attributes
    ----------
    columns : dict of str to (Series or Numbers)
        For `gpupipe.table.encode_frame.encode_frame`. Rows: files in sorted order, rows as in the file.
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
    backend: Backend,
    tables: Mapping[str, JoinedTable] | None = None,
    base_dir: BaseDir = None,
) -> LoadedFrame:
    """Read one table with the backend's own readers.

    Raises
    ------
    Obstacle
        If the host must read it.
    DataError, SchemaError
        As `gpupipe.readers.read.read_arrow`.
    """
    require_plain_settings(source, tables or {})
    files = data_files(source, base_dir)
    require_plain_files(files, source)
    wanted, notes = Wanted(source), Notes()
    if files[0].format == "csv":
        columns, rules = csv_columns(files[0], wanted, source, backend, notes)
    else:
        frame, rules = _read_all(files, wanted, source, backend, notes), text_rules(notes)
        columns = {str(name): frame[name] for name in frame.columns}
    return LoadedFrame(_finish(columns, rules, wanted, source, backend), rules, files, notes)


def _finish(columns: Columns, rules: TextRules, wanted: Wanted, source: TableSource, backend: Backend) -> Columns:
    """Filter the rows, then keep the columns that are asked for."""
    if source.where:
        columns = filter_columns(columns, source.where, rules, backend)
        if not len(next(iter(columns.values()))):
            raise DataError("no row passes the filter", where=f"where: {source.where}", fix="loosen it")
    wanted.check(list(columns), mask(source.label))
    return {name: column for name, column in columns.items() if wanted.is_wanted(name)}


def _read_all(files: list[SourceFile], wanted: Wanted, source: TableSource, backend: Backend, notes: Notes) -> Any:
    frames = []
    for file in files:
        with opened(file) as stream:
            schema = orc.ORCFile(stream).schema if file.format == "orc" else pq.read_schema(stream)
        names = usable_names(schema, file, wanted, notes)
        with reading_on_device(file.path):
            frame = backend.read_columns(file.format, file.path, names)
        if len(frame):
            frames.append(frame)
        else:
            notes.say(f"no rows in {mask(file.path)}")
    if not frames:
        raise DataError("there are no rows", where=mask(source.label), fix="check that it is the right file")
    return frames[0] if len(frames) == 1 else backend.frame.concat(frames, ignore_index=True)


def text_rules(notes: Notes) -> TextRules:
    """Return what texts mean in every format but CSV; what is read as missing is noted."""

    def read(name: str, texts: pa.StringArray) -> pa.Array:
        cleaned, gone = clean_texts(pa.chunked_array([texts.dictionary_encode()]))
        if any(gone):  # that an empty text is missing goes without saying
            notes.say(f"column {name!r}: {', '.join(map(repr, gone[:5]))} read as missing")
        return cleaned.cast(pa.string()).combine_chunks()

    return TextRules(read, NULL_VALUES)

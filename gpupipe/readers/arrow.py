"""Arrow IPC files and streams, and Feather files, memory-mapped."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import feather, ipc

from gpupipe.readers.files import SourceFile
from gpupipe.readers.notes import Notes
from gpupipe.readers.plain import usable_names
from gpupipe.readers.settings import TableSource
from gpupipe.readers.streams import opened
from gpupipe.readers.wanted import Wanted

FILE_MARK = b"ARROW1"
FEATHER_1_MARK = b"FEA1"


def read(file: SourceFile, wanted: Wanted, source: TableSource, notes: Notes) -> pa.Table:
    """Return the wanted columns of an Arrow file, stream or Feather file.

    Raises
    ------
    DataError
        If the file is corrupt or truncated, or has no usable column.
    SchemaError
        If a column that is asked for by name is nested.
    """
    with opened(file) as stream:
        table = _read_all(stream)
        table = table.select(usable_names(table.schema, file, wanted, notes))
        table.validate(full=True)  # offsets and codes in a damaged file could point anywhere
        return table


def _read_all(stream: Any) -> pa.Table:
    mark = stream.read(len(FILE_MARK))
    stream.seek(0)
    if mark.startswith(FEATHER_1_MARK):
        return feather.read_table(stream)
    if mark == FILE_MARK:
        return ipc.open_file(stream).read_all()
    return ipc.open_stream(stream).read_all()

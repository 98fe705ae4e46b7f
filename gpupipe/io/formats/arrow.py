"""Reader of Arrow IPC files and streams, and of Feather files. From files, only the selected columns are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import feather, ipc

from gpupipe.io.arrow_types import import_pandas_types
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.settings import TableSource

FILE_MARK = b"ARROW1"
FEATHER_1_MARK = b"FEA1"


def read(file: SourceFile, wanted: ColumnFilter, source: TableSource, notes: Notes) -> pa.Table:
    """Return the selected columns of an Arrow file, stream or Feather file.

    Raise DataError if the file is corrupt or truncated, or has no usable column; SchemaError if a column requested by
    name is nested.
    """
    with open_file(file) as stream:
        if is_feather_1(stream):
            table = feather.read_table(stream)
            table = table.select(usable_names(table.schema, file, wanted, notes))
        else:
            schema = reader_of(stream).schema
            if import_pandas_types(schema):
                schema = reader_of(stream).schema
            names = usable_names(schema, file, wanted, notes)
            table = reader_of(stream, [schema.get_field_index(name) for name in names]).read_all()
        table.validate(full=True)  # offsets and codes of a corrupt file could be out of bounds
        return table


def is_feather_1(stream: Any) -> bool:
    """Return True if an open file is Feather version 1, which is not the Arrow IPC format."""
    return _mark(stream).startswith(FEATHER_1_MARK)


def reader_of(stream: Any, fields: Sequence[int] = ()) -> Any:
    """Return an Arrow reader from the start of an open file or stream, for the given fields or for all."""
    options = ipc.IpcReadOptions(included_fields=list(fields))
    return (ipc.open_file if _mark(stream) == FILE_MARK else ipc.open_stream)(stream, options=options)


def batches(reader: Any) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a file or stream reader."""
    if isinstance(reader, ipc.RecordBatchFileReader):
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)


def _mark(stream: Any) -> bytes:
    stream.seek(0)
    mark = bytes(stream.read(len(FILE_MARK)))
    stream.seek(0)
    return mark

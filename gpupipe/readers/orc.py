"""ORC files."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import orc

from gpupipe.readers.files import SourceFile
from gpupipe.readers.notes import Notes
from gpupipe.readers.plain import usable_names
from gpupipe.readers.settings import TableSource
from gpupipe.readers.streams import opened
from gpupipe.readers.wanted import Wanted


def read(file: SourceFile, wanted: Wanted, source: TableSource, notes: Notes) -> pa.Table:
    """Return the wanted columns of an ORC file; nested ones are never decoded.

    Raises
    ------
    DataError
        If the file is corrupt or truncated, or has no usable column.
    SchemaError
        If a column that is asked for by name is nested.
    """
    with opened(file) as stream:
        reader = orc.ORCFile(stream)
        names = usable_names(reader.schema, file, wanted, notes)
        return reader.read(columns=names).select(names)

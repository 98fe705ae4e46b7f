"""Reader of ORC files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import orc

from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.settings import TableSource


def read(
    file: SourceFile, wanted: ColumnFilter, source: TableSource, notes: Notes, stripes: Sequence[int] | None = None
) -> pa.Table:
    """Return the selected columns of an ORC file, or of some of its stripes; nested columns are never decoded.

    Raise DataError if the file is corrupt or truncated, or has no usable column; SchemaError if a column requested by
    name is nested.
    """
    with open_file(file) as stream:
        reader = orc.ORCFile(stream)
        names = usable_names(reader.schema, file, wanted, notes)
        if stripes is None:
            return reader.read(columns=names).select(names)
        return pa.Table.from_batches([reader.read_stripe(i, columns=names) for i in stripes]).select(names)

"""What the footer of a Parquet file says of the memory that its row groups take."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from gpupipe.readers.columns import is_text
from gpupipe.readers.files import SourceFile
from gpupipe.readers.notes import Notes
from gpupipe.readers.parquet import column_names
from gpupipe.readers.settings import TableSource
from gpupipe.readers.streams import opened
from gpupipe.readers.wanted import Wanted

CODE = 4  # bytes
WIDEST = 8
TEXT_BYTES = 16  # where nothing is known of a text


@dataclass(frozen=True)
class Groups:
    """The row groups of a file, as far as its wanted columns go.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the wanted columns.
    n_rows : int
    decoded : list of int
        About the bytes of each row group as Arrow holds it.
    encoded : int
        The most bytes that the encoded table takes.
    """

    schema: pa.Schema
    n_rows: int
    decoded: list[int]
    encoded: int


def read_groups_of(file: SourceFile, source: TableSource, written_out: bool = False) -> Groups:
    """Return what the footer of `file` says; no value is read but some of columns of bytes.

    Parameters
    ----------
    file : SourceFile
    source : TableSource
    written_out : bool
        Whether every row has its texts, not their codes: as frames of a device have them.

    Raises
    ------
    DataError, SchemaError
        As `gpupipe.readers.parquet.read`.
    """
    with opened(file) as handle:
        probe = pq.ParquetFile(handle)
        names = column_names(probe, file, Wanted(source), Notes())
        schema = pa.schema([probe.schema_arrow.field(name) for name in names]).remove_metadata()
        metadata = probe.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        decoded = [_row_group(group, schema, written_out) for group in groups]
    n_rows = int(metadata.num_rows)
    encoded = n_rows * sum(CODE if _is_coded(kind) else min(WIDEST, max(4, _width(kind))) for kind in schema.types)
    return Groups(schema, n_rows, decoded, encoded)


def _row_group(group: pq.RowGroupMetaData, schema: pa.Schema, written_out: bool) -> int:
    """Return the bytes of a row group as Arrow, or a frame, holds it: 0 only where it has no rows."""
    if not group.num_rows:
        return 0
    n_bytes = sum(_width(kind) for kind in schema.types) * group.num_rows
    for i in range(group.num_columns):
        chunk = group.column(i)
        if chunk.path_in_schema in schema.names and _is_coded(schema.field(chunk.path_in_schema).type):
            # The chunk holds the levels, or all texts.
            n_bytes += _length(chunk) * group.num_rows if written_out else chunk.total_uncompressed_size
    return int(n_bytes)


def _length(chunk: pq.ColumnChunkMetaData) -> int:
    """Return about how long a text is: as the least and the greatest are, if the footer says these."""
    ends = chunk.statistics
    if ends is None or not ends.has_min_max:
        return TEXT_BYTES
    return max(len(str(ends.min)), len(str(ends.max)))


def _is_coded(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or is_text(kind)


def _width(kind: pa.DataType) -> int:
    """Return the bytes of a value as Arrow holds it, of a text those of its code."""
    if _is_coded(kind):
        return CODE
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # of varying width
        return WIDEST

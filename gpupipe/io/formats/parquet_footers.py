"""Memory estimates of row groups from the footer of a Parquet file.

Column chunk metadata is never accessed: for the footer of a corrupt or encrypted file, pyarrow aborts the process
(SIGABRT) instead of raising an error. Metadata that Arrow C++ reads internally is safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpupipe.io.arrow_types import import_pandas_types, is_text
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.parquet import PROBE_ROWS, column_names
from gpupipe.io.notes import Notes
from gpupipe.io.settings import TableSource

CODE = 4  # bytes
WIDEST = 8


@dataclass(frozen=True)
class RowGroups:
    """The row groups of a Parquet file, restricted to the selected columns.

    `decoded`: approximate size of each row group in Arrow memory, in bytes. `encoded`: maximum size of the encoded
    table in bytes.
    """

    schema: pa.Schema
    n_rows: int
    decoded: list[int]
    encoded: int


def read_groups_of(file: SourceFile, source: TableSource, written_out: bool = False) -> RowGroups:
    """Return the row groups of `file` from its footer; reads values only to probe columns of bytes or text.

    With `written_out`, text is estimated as strings per row, as in device frames, instead of dictionary codes.

    Raise DataError or SchemaError as `gpupipe.io.formats.parquet.read`.
    """
    with open_file(file) as handle:
        probe = pq.ParquetFile(handle)
        whole = probe.schema_arrow  # a property that builds a new schema at each access
        if import_pandas_types(whole):
            whole = probe.schema_arrow
        names = column_names(probe, whole, file, ColumnFilter(source), Notes())
        schema = pa.schema([whole.field(name) for name in names])
        metadata = probe.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        lengths = _lengths(probe, schema) if written_out else {}
        decoded = [_row_group(group, schema, lengths) for group in groups]
    n_rows = int(metadata.num_rows)
    encoded = n_rows * sum(CODE if _is_coded(kind) else min(WIDEST, max(4, _width(kind))) for kind in schema.types)
    return RowGroups(schema, n_rows, decoded, encoded)


def _row_group(group: pq.RowGroupMetaData, schema: pa.Schema, lengths: Mapping[str, float]) -> int:
    """Return the size of a row group in bytes, with text as codes or as strings of `lengths`; 0 only without rows."""
    if not group.num_rows:
        return 0
    n_bytes = sum(_width(kind) for kind in schema.types) * group.num_rows
    if lengths:
        n_bytes += sum(lengths.values()) * group.num_rows
    elif any(map(_is_coded, schema.types)):  # upper bound for the levels of all columns
        n_bytes += group.total_byte_size
    return int(n_bytes)


def _lengths(probe: pq.ParquetFile, schema: pa.Schema) -> dict[str, float]:
    """Return the mean bytes per value of each text column, estimated from the first rows."""
    texts = [field.name for field in schema if _is_coded(field.type) and is_text(_values(field.type))]
    first = next(probe.iter_batches(PROBE_ROWS, columns=texts), None) if texts else None
    if first is None or not first.num_rows:
        return dict.fromkeys(texts, 0.0)
    return {name: _n_bytes(first.column(name)) / first.num_rows for name in texts}


def _n_bytes(texts: pa.Array) -> int:
    return int(pc.sum(pc.binary_length(texts.cast(_values(texts.type)))).as_py() or 0)


def _values(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_coded(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or is_text(kind)


def _width(kind: pa.DataType) -> int:
    """Return the size of a value in bytes; for text, the size of its code."""
    if _is_coded(kind):
        return CODE
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # variable width
        return WIDEST

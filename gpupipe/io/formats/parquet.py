"""Reader of Parquet files. Strings are read as the dictionary codes in the file; page checksums are verified."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpupipe.io.arrow_types import (
    LONG_BYTES,
    describe_beyond,
    has_short_values,
    import_pandas_types,
    is_bytes,
    is_text,
)
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import is_dropped, usable_names
from gpupipe.io.settings import TableSource

PROBE_ROWS = 256
MAX_SECONDS = (2**63 - 1) // 1_000_000


def read(
    file: SourceFile, wanted: ColumnFilter, source: TableSource, notes: Notes, groups: Sequence[int] | None = None
) -> pa.Table:
    """Return the selected columns of a Parquet file, or of some of its row groups.

    Nested columns, and columns of long binary values that are not text, are not decoded unless requested by name.

    Raise DataError if the file is corrupt, truncated or encrypted, or has no usable column; SchemaError if a column
    requested by name is unusable.
    """
    (table,) = read_groups(file, wanted, notes, [groups])  # exhausts the generator, which then checks for file changes
    return table


def read_groups(
    file: SourceFile, wanted: ColumnFilter, notes: Notes, chunks: Iterable[Sequence[int] | None]
) -> Iterator[pa.Table]:
    """Yield the result of `read` for each of `chunks`, which are lists of row groups; None means all row groups."""
    with open_file(file) as handle:
        probe = pq.ParquetFile(handle)
        schema = probe.schema_arrow  # a property that builds a new schema at each access
        if import_pandas_types(schema):
            schema = probe.schema_arrow
        names = column_names(probe, schema, file, wanted, notes)
        dictionaries = [n for n in names if is_text(kind := schema.field(n).type) or pa.types.is_binary(kind)]
        ancient = int96_columns(probe, names)
        for groups in chunks:
            # A column 'a.b' and field b of a struct 'a' have the same path: Arrow reads both; select keeps the column.
            try:
                table = _read(handle, probe, names, dictionaries, "us", groups)
            except (OSError, NotImplementedError) as error:
                # A message of pyarrow 26.0, which also raises OSError for corrupt files.
                if not dictionaries or "ot yet implemented" not in str(error):
                    raise
                dictionaries = []  # Arrow reads DELTA-encoded strings only without a dictionary
                table = _read(handle, probe, names, dictionaries, "us", groups)
            table = table.select(names)
            if ancient:
                seconds = _read(handle, probe, ancient, [], "s", groups).select(ancient)
                table = _without_wrapped_times(table, seconds, notes)
            yield table


def column_names(
    probe: pq.ParquetFile, schema: pa.Schema, file: SourceFile, wanted: ColumnFilter, notes: Notes
) -> list[str]:
    """Return the columns to read from a file with this Arrow schema.

    Columns of long binary values that are not text are dropped before reading: images, for example, could exhaust
    memory.
    """
    names = usable_names(schema, file, wanted, notes)
    in_bytes = [name for name in names if is_bytes(schema.field(name).type) and not wanted.is_named(name)]
    head = next(probe.iter_batches(PROBE_ROWS, columns=in_bytes), None) if in_bytes else None
    values = {} if head is None else dict(zip(head.schema.names, head.columns, strict=True))
    blobs = [name for name, first in values.items() if not (_is_utf8(first) or has_short_values(first))]
    gone = {name for name in blobs if is_dropped(name, LONG_BYTES, file, wanted, notes)}
    return [name for name in names if name not in gone]


def _read(
    handle: Any,
    probe: pq.ParquetFile,
    names: Sequence[str],
    dictionaries: Sequence[str],
    int96_unit: str,
    groups: Sequence[int] | None,
) -> pa.Table:
    reader = pq.ParquetFile(
        handle,
        metadata=probe.metadata,
        read_dictionary=dictionaries,
        coerce_int96_timestamp_unit=int96_unit,
        page_checksum_verification=True,
    )
    return reader.read(columns=names) if groups is None else reader.read_row_groups(list(groups), columns=names)


def int96_columns(probe: pq.ParquetFile, names: Sequence[str]) -> list[str]:
    """Return the columns with timestamps of the legacy INT96 type."""
    schema, known = probe.schema, frozenset(names)
    leaves = [schema.column(i) for i in range(len(schema))]
    return [leaf.path for leaf in leaves if leaf.physical_type == "INT96" and leaf.path in known]


def _without_wrapped_times(table: pa.Table, seconds: pa.Table, notes: Notes) -> pa.Table:
    """Return `table` with null for INT96 times outside int64 microseconds, for which Arrow overflows silently."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, ticks in zip(seconds.column_names, seconds.columns, strict=True):
        fits = pc.less_equal(pc.abs(ticks.cast(pa.int64())), MAX_SECONDS)
        if n_beyond := len(fits) - fits.null_count - (pc.sum(fits).as_py() or 0):
            notes.warn(f"column {name!r} has {describe_beyond(n_beyond)}", name)
            columns[name] = pc.if_else(fits, columns[name], pa.scalar(None, columns[name].type))
    return pa.table(columns)


def _is_utf8(values: pa.Array) -> bool:
    try:
        values.cast(pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True

"""Copy of an open table to a Parquet file, in memory for one row group."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from gpupipe.errors import DataError, LimitError
from gpupipe.io.arrow_types import is_text
from gpupipe.io.external.open_table import OpenTable, convert_errors
from gpupipe.io.external.row_predicate import select_rows
from gpupipe.io.external.stored_columns import describe_type, is_stored, stored_column, stored_type
from gpupipe.io.files import SourceFile
from gpupipe.io.hashing_stream import HashingStream
from gpupipe.io.table_copy import CopyFolder, TableCopy
from gpupipe.names import duplicates, enumerate_names
from gpupipe.system_errors import DISK, is_full
from gpupipe.units import MIB

GROUP_BYTES = 64 * MIB
MAX_GROUP_ROWS, MIN_GROUP_ROWS = 131_072, 1_024
TEXT_BYTES, NUMBER_BYTES = 24, 8


def copy_table(table: OpenTable, with_nested: bool) -> SourceFile:
    """Copy a table to a temporary Parquet file and return the file, which exists as long as the result.

    Row groups depend on the rows only, not on the batches of the driver, so that equal rows are equal files. Without a
    pin of the table, the copy is identified by the hash of its bytes. Raise DataError if two columns have the same
    name, no column can be used, or the table cannot be read; LimitError if the disk is full.
    """
    if twice := duplicates(table.schema.names):
        what = f"duplicate column names: {enumerate_names(twice, quoted=True)}"
        raise DataError(what, where=table.label, fix="rename the columns in the query")
    fields = [field for field in table.schema if is_stored(field, with_nested)]
    unusable = {field.name: describe_type(field.type) for field in table.schema if field not in fields}
    if not fields:
        raise DataError("no column has a usable type", where=table.label, fix="convert columns to text or numbers")
    schema = pa.schema([pa.field(field.name, stored_type(field)) for field in fields])
    folder = CopyFolder()
    path = folder.path / "rows.parquet"
    try:
        with path.open("wb") as file:
            sink = HashingStream(file)
            n_rows = _write(sink, schema, _groups(_stored(table, schema), schema))
        pin = table.pin or f"sha256 {sink.hash.hexdigest()}"
        copy = TableCopy(table.label, pin, n_rows, table.settings, unusable, folder)
        return SourceFile.local(str(path), path.stat(), "parquet", copy=copy)
    except BaseException as error:
        folder.remove()
        if isinstance(error, OSError) and is_full(error):
            fix = "free some space, or set TMPDIR to a folder on a larger disk"
            raise LimitError(DISK.what, where=str(folder.path.parent), fix=fix) from error
        raise


def _write(sink: HashingStream, schema: pa.Schema, groups: Iterator[pa.Table]) -> int:
    """Write row groups; return the number of rows."""
    texts, n_rows = [field.name for field in schema if is_text(field.type)], 0
    with (
        pa.PythonFile(sink, mode="w") as stream,
        pq.ParquetWriter(stream, schema, use_dictionary=texts, write_page_checksum=True) as writer,
    ):
        for group in groups:
            writer.write_table(group, row_group_size=group.num_rows)
            n_rows += group.num_rows
    return n_rows


def _stored(table: OpenTable, schema: pa.Schema) -> Iterator[pa.Table]:
    for batch in table.batches:
        with convert_errors("a value cannot be converted", table.label, "convert the column to another type"):
            columns = [stored_column(batch.column(field.name), field.type) for field in schema]
        rows = pa.Table.from_arrays(columns, schema=schema)
        yield rows if table.condition is None else select_rows(rows, table.condition)


def _groups(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows in tables of the same height, except the last one."""
    row_bytes = sum(TEXT_BYTES if is_text(field.type) else NUMBER_BYTES for field in schema)
    height = max(MIN_GROUP_ROWS, min(MAX_GROUP_ROWS, GROUP_BYTES // row_bytes))
    waiting: list[pa.Table] = []
    n_waiting = 0
    for table in tables:
        waiting.append(table)
        n_waiting += table.num_rows
        if n_waiting >= height:
            whole = pa.concat_tables(waiting)
            stop = n_waiting - n_waiting % height
            for start in range(0, stop, height):
                yield whole.slice(start, height)
            waiting, n_waiting = [whole.slice(stop)], n_waiting - stop
    if n_waiting:
        yield pa.concat_tables(waiting)

"""Copy of an open table to a Parquet file, in memory for one row group."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpupipe.errors import DataError, LimitError
from gpupipe.io.arrow_types import is_nested, is_text, uuid_column
from gpupipe.io.external.open_table import OpenTable, convert_errors
from gpupipe.io.external.row_predicate import select_rows
from gpupipe.io.files import SourceFile
from gpupipe.io.hashing_stream import HashingStream
from gpupipe.io.table_copy import CopyFolder, TableCopy
from gpupipe.names import duplicates, enumerate_names
from gpupipe.system_errors import DISK, is_full
from gpupipe.units import MIB

DECIMAL_DIGITS = 76  # of decimal256


def stored_type(field: pa.Field) -> pa.DataType | None:
    """Return the type that a column is stored with; None if it cannot be used: intervals, and types of one database."""
    kind = field.type
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return stored_type(field.with_type(kind.value_type))
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return pa.string()
        if kind.extension_name == "arrow.opaque":
            return _numeric_type(field) if kind.type_name == "numeric" else None
        return stored_type(field.with_type(kind.storage_type))
    if is_text(kind):
        return pa.string()
    if pa.types.is_timestamp(kind) and kind.tz:  # that of the session, not of the column
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_binary_view(kind):
        return pa.binary()
    return None if pa.types.is_interval(kind) or pa.types.is_union(kind) else kind


def describe_type(kind: pa.DataType) -> str:
    """Return a description of the values of an unusable type."""
    if isinstance(kind, pa.BaseExtensionType):
        return f"{getattr(kind, 'type_name', kind.extension_name)} values"
    return "interval values" if pa.types.is_interval(kind) else f"{str(kind).split('<')[0]} values"


def is_stored(field: pa.Field, with_nested: bool) -> bool:
    """Return True if a column is copied; nested columns are needed only by list ops and a prepare hook."""
    kind = stored_type(field)
    return kind is not None and (with_nested or not is_nested(kind))


def stored_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values of a column as its `stored_type` `kind`."""
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    if isinstance(column.type, pa.BaseExtensionType):
        if column.type.extension_name == "arrow.uuid":
            return uuid_column(pa.chunked_array([column.storage])).cast(pa.string()).combine_chunks()
        is_numeric = column.type.extension_name == "arrow.opaque"
        column = column.storage
        if is_numeric and pa.types.is_decimal(kind):  # NaN is missing, and no decimal
            is_nan = pc.is_in(column, value_set=pa.array(["NaN", "nan"], column.type))
            column = pc.if_else(is_nan, pa.scalar(None, column.type), column)
    return column if column.type == kind else column.cast(kind)


def _numeric_type(field: pa.Field) -> pa.DataType:
    """Return the type of a NUMERIC column of PostgreSQL, which the driver passes as text.

    A declared precision is kept, so that values are those of a Parquet file with the same declaration.
    """
    modifier = int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1")) - 4  # 4: size of a header
    digits, scale = modifier >> 16, modifier & 0x7FF
    if modifier < 0 or digits > DECIMAL_DIGITS or scale > digits:  # scales may also be negative or large
        return pa.float64()
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


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

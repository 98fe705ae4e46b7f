"""Columns as the files hold them: for identifiers, which are copied and never computed with.

Nothing is inferred, trimmed or read as missing. CSV columns are text; those of typed formats keep their types.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import DataError, SchemaError
from gpupipe.io.arrow_types import is_text
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.csv.reader import header_names, read_texts
from gpupipe.io.formats.registry import load_reader
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.input_files import data_files, input_files
from gpupipe.io.notes import Notes
from gpupipe.io.settings import TableSource
from gpupipe.names import enumerate_names


class StoredColumns(ColumnFilter):
    """Columns that are read by their exact names, of whatever type they are."""

    def __init__(self, source: TableSource, names: Collection[str]) -> None:
        super().__init__(source, names)
        self.everything, self.names = True, frozenset(names)  # no column is dropped for its type

    def pick(self, names: Sequence[str]) -> list[str]:
        """Return those of a file's columns that are asked for; without any, one that tells how many rows there are."""
        self.seen.update(dict.fromkeys(names))
        return [name for name in names if name in self.names] or list(names[:1])

    def is_wanted(self, name: str) -> bool:
        """Whether the column is asked for."""
        return name in self.names


def read_stored(source: TableSource, names: Sequence[str], files: Sequence[SourceFile] | None = None) -> pa.Table:
    """Return columns of the files of a source, one row for each that `gpupipe.io.source_reader.read_arrow` returns.

    Parameters
    ----------
    source : TableSource
        Of files, without ``where`` and ``prepare``.
    names : sequence of str
        Exact names; the columns come out in this order, null where a file lacks one.
    files : sequence of SourceFile, optional
        Of the source, if they were listed already.

    Raises
    ------
    DataError
        If a file cannot be read.
    SchemaError
        If a column has types in two files that nothing holds both of.
    """
    files = data_files(input_files(source) if files is None else files)
    wanted, partitions, tables = StoredColumns(source, names), HivePartitions(files), []
    for file in files:
        table = _read(file, wanted, source)
        if table is not None and table.num_rows:
            tables.append(partitions.add_columns(table, file, wanted))
    if not tables:
        return pa.table({name: pa.array([], pa.string()) for name in names})
    tables = [pa.table(list(map(_decoded, table.columns)), names=table.column_names) for table in tables]
    try:
        whole = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            f"the columns {enumerate_names(names)} have other types in other files: {error}",
            where=mask(source.label),
            fix="write them in one type, or do not copy them",
        ) from None
    found = dict(zip(whole.column_names, whole.columns, strict=True))
    return pa.table({name: found[name] if name in found else pa.nulls(len(whole), pa.string()) for name in names})


def stored_names(source: TableSource, files: Sequence[SourceFile]) -> list[str]:
    """Return the columns of the files of a source; one column of them is read for that."""
    wanted, names = StoredColumns(source, ()), dict[str, None]()
    for file in data_files(files):
        if file.format == "csv":
            names.update(dict.fromkeys(header_names(file, source.csv)))
        else:
            _read(file, wanted, source)
    return list(names | wanted.seen | dict.fromkeys(name for file in files for name in file.partitions))


def count_rows(source: TableSource, file: SourceFile) -> int:
    """Return how many rows `read_stored` returns of a file; errors are those of `read_stored`."""
    return int(read_stored(source, [""], [file]).num_rows)  # the first column, for want of one of that name


def _read(file: SourceFile, wanted: StoredColumns, source: TableSource) -> pa.Table | None:
    if file.format == "csv":
        return read_texts(file, sorted(wanted.names), source)
    table: pa.Table | None = load_reader(file.format)(file, wanted, source, Notes())
    return table


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without the dictionary that its reader made, and bytes that are text as text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            return column
    return column.cast(pa.string()) if is_text(column.type) else column


def numbers_of_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text as numbers where that changes no value: ``007``, ``1e3`` and 20 digits stay text.

    >>> numbers_of_texts(pa.chunked_array([["7", "12"]])).type, numbers_of_texts(pa.chunked_array([["07", "12"]])).type
    (DataType(int64), DataType(string))
    """
    if not pa.types.is_string(column.type):
        return column
    for pattern, kind in ((r"^(0|-?[1-9][0-9]{0,17})$", pa.int64()), (r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$", pa.float64())):
        fits = pc.match_substring_regex(column, pattern)
        if kind == pa.float64():
            fits = pc.and_(fits, pc.less_equal(pc.utf8_length(column), 16))
        if pc.all(fits).as_py() and column.null_count < len(column):
            return column.cast(kind)
    return column


def require_rows(table: pa.Table, n_rows: int, source: TableSource) -> pa.Table:
    """Return `table` if it has `n_rows`: the files were read twice.

    Raises
    ------
    DataError
        If it has not.
    """
    if table.num_rows != n_rows:
        raise DataError(
            f"the input changed while it was read: {n_rows:,} rows, then {table.num_rows:,}",
            where=mask(source.label),
            fix="run it again once nothing writes to it",
        )
    return table

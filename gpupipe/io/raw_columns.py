"""Read columns exactly as stored, for identifiers, which are copied to the output unchanged.

Nothing is inferred, stripped or read as missing. CSV columns are text; columns of typed formats keep their types.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import DataError, SchemaError
from gpupipe.io.arrow_types import is_text
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.csv.reader import header_names, read_texts
from gpupipe.io.formats.readers import load_reader
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.input_files import data_files, input_files
from gpupipe.io.notes import Notes
from gpupipe.io.settings import TableSource
from gpupipe.names import enumerate_names
from gpupipe.table.schema import NULL_VALUES
from gpupipe.units import MIB

MOST_BYTES = 256 * MIB  # of CSV files whose target is read again to report texts that mean a missing value


class StoredColumns(ColumnFilter):
    """Column selection by exact names, regardless of type."""

    def __init__(self, source: TableSource, names: Collection[str]) -> None:
        super().__init__(source, names)
        self.everything, self.names = True, frozenset(names)  # drop no column because of its type

    def pick(self, names: Sequence[str]) -> list[str]:
        """Return the requested columns of a file, or its first column, for the row count, if it has none of them."""
        self.seen.update(dict.fromkeys(names))
        return [name for name in names if name in self.names] or list(names[:1])

    def is_wanted(self, name: str) -> bool:
        """Return True if the column is requested."""
        return name in self.names


def read_stored(source: TableSource, names: Sequence[str], files: Sequence[SourceFile] | None = None) -> pa.Table:
    """Return columns of a source as stored, with the same rows as `gpupipe.io.source_reader.read_arrow` returns.

    The source has files, and neither ``where`` nor ``prepare``. `names` are exact, in the order of the result; a column
    that a file lacks is null. `files` are the files of the source, if already listed. Raise DataError if a file cannot
    be read; SchemaError if the types of a column in two files have no common type.
    """
    files = data_files(input_files(source) if files is None else files)
    wanted = StoredColumns(source, names)
    partitions = HivePartitions(files, keys=names)
    tables = []
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
            f"the types of columns {enumerate_names(names)} differ between files: {error}",
            where=mask(source.label),
            fix="write each column with the same type in all files, or remove it from id",
        ) from None
    found = dict(zip(whole.column_names, whole.columns, strict=True))
    return pa.table({name: found[name] if name in found else pa.nulls(len(whole), pa.string()) for name in names})


def stored_names(source: TableSource, files: Sequence[SourceFile]) -> list[str]:
    """Return the column names of the files of a source; reads one column of each file that is not CSV."""
    wanted, names = StoredColumns(source, ()), dict[str, None]()
    for file in data_files(files):
        if file.format == "csv":
            names.update(dict.fromkeys(header_names(file, source.csv)))
        else:
            _read(file, wanted, source)
    return list(names | wanted.seen | dict.fromkeys(chain.from_iterable(file.partitions for file in files)))


def notes_of_missing_words(source: TableSource, names: Sequence[str], files: Sequence[SourceFile]) -> list[str]:
    """Return notes about the words in text columns of CSV files that are read as missing, as `Notes` words them.

    Files of more than `MOST_BYTES`, and files that a hook changes, have none: this reads the columns again.
    """
    files = data_files(files)
    if source.prepare or sum(file.size for file in files) > MOST_BYTES:
        return []
    table = read_stored(source, names, files)
    notes = Notes()
    missing = [*NULL_VALUES, *source.csv.null_values]
    for name in filter(table.column_names.__contains__, names):
        words = {str(text).strip() for text in table.column(name).unique().drop_null().to_pylist()}
        notes.add_missing(name, words.intersection(missing))
    return notes.lines()


def count_rows(source: TableSource, file: SourceFile) -> int:
    """Return the number of rows that `read_stored` returns for a file; raises the same errors."""
    return int(read_stored(source, [""], [file]).num_rows)  # no column has this name: reads the first one


def _read(file: SourceFile, wanted: StoredColumns, source: TableSource) -> pa.Table | None:
    if file.format == "csv":
        return read_texts(file, sorted(wanted.names), source)
    table: pa.Table | None = load_reader(file.format)(file, wanted, source, Notes())
    return table


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without dictionary encoding, with binary values that are valid UTF-8 as text."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            return column
    return column.cast(pa.string()) if is_text(column.type) else column


def numbers_of_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a text column as numbers if that is lossless: ``007``, ``1e3`` and 20 digits stay text.

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
    """Return `table` if it has the `n_rows` that another read of the same files returned.

    Raise DataError if the number of rows differs.
    """
    if table.num_rows != n_rows:
        raise DataError(
            f"the input changed while it was read: expected {n_rows:,} rows, found {table.num_rows:,}",
            where=mask(source.label),
            fix="run again when no other process writes to it",
        )
    return table

"""Read one table from a source: find, read and concatenate its files, then run the hook and filter the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.arrow_types import is_bytes, stated_categories
from gpupipe.io.chunks.chunk import SourceChunk
from gpupipe.io.chunks.chunk_reader import read_chunk, select_source_columns
from gpupipe.io.chunks.scan import NoRowsError, scan_source
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.column_settings import ColumnSettings
from gpupipe.io.file_formats import has_reader
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.csv.reader import header_names
from gpupipe.io.hook import hook_file, run_hook
from gpupipe.io.in_memory import FORMAT as MEMORY
from gpupipe.io.input_files import input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.missing_values import TEXT
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import clean_table
from gpupipe.io.row_steps import apply_steps
from gpupipe.io.settings import TableSource
from gpupipe.table.list_columns import is_list
from gpupipe.table.time_columns import iso_times, read_as_times


@dataclass(frozen=True)
class LoadedTable:
    """An Arrow table, with the files it was read from.

    - `table`: text is dictionary<int32, string>, each chunk with its own dictionary; times are timestamp[us] in UTC;
      numbers and booleans keep their types. Files are in sorted order, rows in the order of the file.
    - `files`: the files that were read, with their identities
    - `notes`: repairs and drops
    - `names`: all columns of the files, including those that were not read
    - `events`: the event tables that the rows were built from, by name; see `gpupipe.io.entities`
    """

    table: pa.Table
    files: list[SourceFile]
    notes: Notes = field(default_factory=Notes)
    names: tuple[str, ...] = ()
    events: Mapping[str, LoadedTable] = field(default_factory=dict)

    @property
    def n_skipped(self) -> int:
        """Number of CSV rows that were skipped because their number of fields differs from the header's."""
        return self.notes.n_skipped


def read_arrow(
    source: TableSource,
    columns: Iterable[str] | None = None,
    *,
    files: Sequence[SourceFile] | None = None,
    may_be_empty: bool = False,
) -> LoadedTable:
    """Read one table.

    - `source`: a ``source:`` section or an entry of ``tables:``
    - `columns`: read exactly these and the target; ``columns:`` and ``drop:`` are ignored
    - `files`: the files of the source, if already listed: see `gpupipe.io.input_files.InputFiles`
    - `may_be_empty`: if True, files with column names and no rows are read as an empty table of text columns; otherwise
      they raise DataError

    Raise DataError if a file is missing, unreadable or corrupt, or there are no rows; SchemaError if a column is
    missing or unusable, or its types differ between files.
    """
    files = list(input_files(source) if files is None else files)
    try_files(source, files)
    wanted, notes = ColumnFilter(source, columns), Notes()
    try:
        table = _read_rows(files, source, wanted, notes)
    except NoRowsError:
        names = _names_of(files, wanted, source) if may_be_empty and source.has_files else []
        if not names:
            raise
        empty = apply_steps(pa.table({name: pa.chunked_array([], TEXT) for name in names}), source)
        empty = empty.select(list(filter(wanted.is_wanted, empty.column_names)))
        return LoadedTable(empty, files, notes, tuple(names))
    if source.frame is not None and not source.prepare:
        table = _with_times(table, source, wanted, notes)
    if source.prepare:
        table = run_hook(table, source.prepare)
        wanted.everything = False  # the hook got all columns; now select those of the source
        table = clean_table(table, hook_file(source.prepare), wanted, notes, source.strips_typed_files)
    names = list(dict.fromkeys([*wanted.seen, *table.column_names]))
    return LoadedTable(_finish(table, wanted, source, may_be_empty), files, notes, tuple(names))


def plain_arrow(table: pa.Table, strip: bool = True) -> pa.Table:
    """Return an Arrow table from memory as `read_arrow` would read it from a file; `strip` strips its texts.

    Raise DataError if no column is usable.
    """
    # Declared: long values and lists are read too.
    declared = {field.name: ColumnSettings(kind="text") for field in table.schema if is_bytes(field.type)}
    declared |= {field.name: ColumnSettings(kind="list") for field in table.schema if is_list(field.type)}
    source = TableSource(frame="the table in memory", declared=declared)
    return clean_table(table, SourceFile(source.label, 0, 0, MEMORY), ColumnFilter(source), Notes(), strip)


def _with_times(table: pa.Table, source: TableSource, wanted: ColumnFilter, notes: Notes) -> pa.Table:
    """Return a table in memory with the texts that are ISO 8601 times as times, as CSV files are read, with a warning.

    Keys keep their texts, which are compared with those of other tables, and so do targets and categories of a frame.
    """
    assert source.frame is not None
    kinds = {field.name: field.type for field in source.frame.table.schema}
    stated = stated_categories(source.frame.table.schema)
    for i, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        is_plain = name not in stated and not pa.types.is_dictionary(kinds[name]) and column.type == TEXT
        if name in source.declared or name in source.keys or name in wanted.always or not is_plain:
            continue
        if (times := iso_times(column)) is not None:
            notes.warn(read_as_times(name), name)
            table = table.set_column(i, name, times)
    return table


def _read_rows(files: Sequence[SourceFile], source: TableSource, wanted: ColumnFilter, notes: Notes) -> pa.Table:
    """Return the rows of all files, each read as one chunk; copies only columns whose type is widened."""
    parts = [
        (file, [SourceChunk(file)]) for file in files if file.format in ("generator", MEMORY) or has_reader(file.format)
    ]
    scan = scan_source(
        source, parts, wanted, lambda tasks: (read_chunk(chunk, source, wanted, kinds) for chunk, kinds in tasks), notes
    )
    tables = []
    while scan.chunks:
        each = scan.chunks.pop(0)
        tables.append(select_source_columns(each.rows, each.chunk, wanted, scan.partitions, scan.schema))
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _names_of(files: Sequence[SourceFile], wanted: ColumnFilter, source: TableSource) -> list[str]:
    """Return the column names of files without rows."""
    names = dict.fromkeys(wanted.seen)
    for file in files:
        if file.format == "csv":
            names.update(dict.fromkeys(header_names(file, source.csv)))
    return [name for name in names if wanted.is_wanted(name) or name in wanted.to_filter]


def _finish(table: pa.Table, wanted: ColumnFilter, source: TableSource, may_be_empty: bool) -> pa.Table:
    """Compute, filter and group the rows, then select the columns."""
    n_read = table.num_rows
    table = apply_steps(table, source)
    if n_read and not table.num_rows and not may_be_empty:
        raise DataError("no row passes the filter", where=f"where: {source.where}", fix="loosen the filter")
    if n_read == 0:
        raise DataError("there are no rows", where=mask(source.label), fix="check that this is the right file")
    return wanted.select(table, mask(source.label))

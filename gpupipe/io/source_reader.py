"""Read one table from a source: find its files, read, concatenate, prepare and filter them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.concatenation import clashes, combine, mixed_note
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.csv.reader import header_names
from gpupipe.io.formats.csv.reader import read as read_csv
from gpupipe.io.formats.registry import FORMATS, load_generator, load_reader
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.hook import hook_file, run_hook
from gpupipe.io.in_memory import FORMAT as MEMORY
from gpupipe.io.input_files import BaseDir, input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.missing_values import TEXT
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import plain_table, replace_null_texts, usable_names
from gpupipe.io.row_steps import apply_steps
from gpupipe.io.settings import TableSource


class NoRowsError(DataError):
    """None of the files has a row."""


@dataclass(frozen=True)
class LoadedTable:
    """A table in Arrow memory, with its origin.

    Attributes
    ----------
    table : pyarrow.Table
        Text as dictionary<int32, string>, each chunk with its own dictionary; times as timestamp[us] in UTC; numbers
        and booleans as they are. Rows: files in sorted order, rows as in the file.
    files : list of SourceFile
        The identity of everything that was read.
    notes : list of str
        What was repaired or left out, each said once.
    n_skipped : int
        Rows of CSV files that were skipped because they have another number of fields than the header.
    names : tuple of str
        Every column of the files, those that were not read included.
    note_columns : mapping of str to str
        Of each note, the column that it is about, ``""`` for none.
    events : mapping of str to LoadedTable
        The event tables that the rows were made of, by name; see `gpupipe.io.entities`.
    """

    table: pa.Table
    files: list[SourceFile]
    notes: list[str] = field(default_factory=list)
    n_skipped: int = 0
    names: tuple[str, ...] = ()
    note_columns: Mapping[str, str] = field(default_factory=dict)
    events: Mapping[str, LoadedTable] = field(default_factory=dict)


def read_arrow(
    source: TableSource,
    base_dir: BaseDir = None,
    columns: Iterable[str] | None = None,
    *,
    files: Sequence[SourceFile] | None = None,
    may_be_empty: bool = False,
) -> LoadedTable:
    """Read one table.

    Parameters
    ----------
    source : TableSource
        A ``source:`` section or an entry of ``tables:``.
    base_dir : path, optional
        The folder of the configuration, which relative paths are relative to.
    columns : iterable of str, optional
        Read exactly these, and the target, instead of what ``columns:`` and ``drop:`` leave.
    files : sequence of SourceFile, optional
        Its files, if they were listed already: see `gpupipe.io.input_files.InputFiles`.
    may_be_empty : bool
        Whether files that name columns and have no rows are a table, of texts, instead of an error.

    Returns
    -------
    LoadedTable

    Raises
    ------
    DataError
        If a file is absent, unreadable or damaged, or there are no rows.
    SchemaError
        If a column is absent or of no use, or differs between files.
    """
    files = list(input_files(source, base_dir) if files is None else files)
    try_files(source, files)
    wanted, notes = ColumnFilter(source, columns), Notes()
    if source.generate:
        table = generate_rows(source, wanted, (0, source.rows))
    elif source.frame is not None:
        given = source.frame.table
        given = given.select(usable_names(given.schema, files[0], wanted, notes))
        table = _plain_frame(given, files[0], wanted, notes)
    else:
        of_rows = [file for file in files if file.format in FORMATS]
        try:
            table = _read_files(of_rows, wanted, source, notes)
        except NoRowsError:
            names = _names_of(of_rows, wanted, source) if may_be_empty else []
            if not names:
                raise
            empty = apply_steps(pa.table({name: pa.chunked_array([], TEXT) for name in names}), source)
            empty = empty.select(list(filter(wanted.is_wanted, empty.column_names)))
            return LoadedTable(empty, files, notes.lines(), notes.n_skipped, tuple(names), notes.columns())
    if source.prepare:
        table = _prepare(table, source.prepare, base_dir, wanted, notes)
    found = tuple(dict.fromkeys([*wanted.seen, *table.column_names]))
    table = _finish(table, wanted, source, may_be_empty)
    return LoadedTable(table, files, notes.lines(), notes.n_skipped, found, notes.columns())


def plain_arrow(table: pa.Table) -> pa.Table:
    """Return an Arrow table from elsewhere (a DataFrame in memory) as `read_arrow` would have read it from a file.

    Raises
    ------
    DataError
        If no column can be used.
    """
    source = TableSource(frame="the table in memory")
    return _plain_frame(table, SourceFile(source.label, 0, 0, MEMORY), ColumnFilter(source), Notes())


def _plain_frame(table: pa.Table, file: SourceFile, wanted: ColumnFilter, notes: Notes) -> pa.Table:
    return replace_null_texts(plain_table(table, file, wanted, notes), notes)


def generate_rows(source: TableSource, wanted: ColumnFilter, rows: tuple[int, int]) -> pa.Table:
    """Generate the rows ``rows[0]`` up to ``rows[1]`` of a source, with the selected columns."""
    generator = load_generator(source.generate or "")
    names = wanted.pick(generator(0, source.seed, None).column_names)
    return generator(rows[1] - rows[0], source.seed, names, rows[0])


def _read_files(files: Sequence[SourceFile], wanted: ColumnFilter, source: TableSource, notes: Notes) -> pa.Table:
    partitions = HivePartitions(files)
    found = [(table, file) for file in files if (table := _read_file(file, wanted, source, notes)) is not None]
    if not found:
        raise NoRowsError("there are no rows", where=mask(source.label), fix="check that it is the right file")
    tables, files = [table for table, _ in found], [file for _, file in found]
    mixed = clashes(tables)
    if mixed and all(file.format == "csv" for file in files):
        notes.say(mixed_note(mixed))
        tables = [_as_text(table, mixed, file, wanted, source) for table, file in found]
    tables = [partitions.add_columns(table, file, wanted) for table, file in zip(tables, files, strict=True)]
    return tables[0] if len(tables) == 1 else combine(tables, files, notes)


def _names_of(files: Sequence[SourceFile], wanted: ColumnFilter, source: TableSource) -> list[str]:
    """Return the columns that files without rows name."""
    names = dict.fromkeys(wanted.seen)
    for file in files:
        if file.format == "csv":
            names.update(dict.fromkeys(header_names(file, source.csv)))
    return [name for name in names if wanted.is_wanted(name) or name in wanted.to_filter]


def _read_file(
    file: SourceFile, wanted: ColumnFilter, source: TableSource, notes: Notes, as_text: Sequence[str] = ()
) -> pa.Table | None:
    if file.format == "csv":  # has its own rules of what is missing
        table = read_csv(file, wanted, source, notes, as_text)
    else:
        table = load_reader(file.format)(file, wanted, source, notes)
    if table is None or table.num_rows == 0:
        notes.say(f"no rows in {mask(file.path)}")
        return None
    table = plain_table(table, file, wanted, notes)
    return table if file.format == "csv" else replace_null_texts(table, notes)


def _as_text(
    table: pa.Table, names: Sequence[str], file: SourceFile, wanted: ColumnFilter, source: TableSource
) -> pa.Table:
    """Read a CSV file again where a column was inferred as numbers: "536365" is one until "C536379" comes."""
    columns = dict(zip(table.column_names, table.columns, strict=True))
    if all(columns[name].type == TEXT for name in names if name in columns):
        return table
    return _read_file(file, wanted, source, Notes(), names)  # what there is to say of it was said the first time


def _prepare(table: pa.Table, reference: str, base_dir: BaseDir, wanted: ColumnFilter, notes: Notes) -> pa.Table:
    made = run_hook(table, reference, base_dir)
    wanted.after_hook()
    return replace_null_texts(plain_table(made, hook_file(reference, base_dir), wanted, notes), notes)


def _finish(table: pa.Table, wanted: ColumnFilter, source: TableSource, may_be_empty: bool) -> pa.Table:
    """Compute, filter and group the rows, then keep the columns that are asked for."""
    n_read = table.num_rows
    table = apply_steps(table, source)
    if n_read and not table.num_rows and not may_be_empty:
        raise DataError("no row passes the filter", where=f"where: {source.where}", fix="loosen it")
    if n_read == 0:
        raise DataError("there are no rows", where=mask(source.label), fix="check that it is the right file")
    return select_columns(table, wanted, source)


def select_columns(table: pa.Table, wanted: ColumnFilter, source: TableSource) -> pa.Table:
    """Return the table with the selected columns, all-null ones as numbers; raise SchemaError if one is absent."""
    wanted.check(table.column_names, mask(source.label))
    table = table.select([name for name in table.column_names if wanted.is_wanted(name)])
    if not any(map(pa.types.is_null, table.schema.types)):
        return table
    columns = [column.cast(pa.float64()) if pa.types.is_null(column.type) else column for column in table.columns]
    return pa.table(columns, names=table.column_names)

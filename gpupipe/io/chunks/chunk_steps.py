"""Steps that read one chunk of a source: some row groups, stripes or rows of text, or a whole file.

The type of a column depends on all chunks. So a chunk is read in three steps, between which
`gpupipe.io.chunks.column_agreement` decides the types: its columns as its parser types them (`parse_chunk`,
`reparse_chunk`), as plain ones (`to_plain_chunk`), and as those of the whole source (`to_final_chunk`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from gpupipe.errors import DataError, GpupipeError
from gpupipe.io.chunks.chunk import FileColumns, Kinds, ParsedChunk, PlainChunk, SourceChunk, SourceColumns
from gpupipe.io.chunks.compact_tables import merge_chunks
from gpupipe.io.chunks.file_notes import FileNotes, clean_chunk
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.concatenation import cast_to
from gpupipe.io.files import mask
from gpupipe.io.filter import filter_rows
from gpupipe.io.formats.csv.reader import declared_texts, header_of, read_rows
from gpupipe.io.formats.csv.stray_values import profile_texts
from gpupipe.io.formats.csv.text_columns import clean_column, convert_numbers
from gpupipe.io.formats.jsonl.reader import read_lines
from gpupipe.io.formats.orc import read_stripes
from gpupipe.io.formats.parquet import read_groups
from gpupipe.io.formats.registry import load_reader
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.missing_values import TEXT
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import generate_rows


def parse_chunk(chunk: SourceChunk, source: TableSource) -> tuple[pa.Table, ParsedChunk]:
    """Parse a chunk: return its rows as the parser types them, CSV texts cleaned. Errors are returned, not raised."""
    wanted, notes = ColumnFilter(source), FileNotes()
    try:
        table = _parse(chunk, wanted, source, notes.about_file)
    except GpupipeError as error:
        return pa.table({}), ParsedChunk(error=error)
    numbers, columns = {}, _columns_of(table)
    if chunk.file.format == "csv":
        for name, column in columns.items():
            if column.type == TEXT:
                columns[name], numbers[name] = clean_column(column, source.csv)
        table = pa.table(columns) if numbers else table
    notes.n_rows = table.num_rows
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    left_out = tuple(name for name in wanted.seen if name not in kinds and wanted.is_wanted(name))
    return table, ParsedChunk(table.num_rows, kinds, left_out, numbers, {}, tuple(wanted.seen), notes)


def reparse_chunk(
    chunk: SourceChunk, source: TableSource, table: pa.Table, parsed: ParsedChunk, kinds: Mapping[str, pa.DataType]
) -> tuple[pa.Table, ParsedChunk]:
    """Return the result of `parse_chunk` with these columns read again as these types, where that is possible."""
    found, numbers, refused = dict(parsed.kinds), dict(parsed.numbers), dict(parsed.refused)
    columns = _columns_of(table)
    for name, kind in kinds.items():
        try:
            columns[name] = _parse_as(chunk, source, name, kind).column(name)
        except DataError:
            refused[name] = refused.get(name, frozenset()) | {kind}
            continue
        if kind == TEXT:
            columns[name], numbers[name] = clean_column(columns[name], source.csv)
        found[name] = kind
    return pa.table(columns), replace(parsed, kinds=found, numbers=numbers, refused=refused)


def to_plain_chunk(
    chunk: SourceChunk, source: TableSource, table: pa.Table, columns: FileColumns
) -> tuple[pa.Table, PlainChunk]:
    """Return the rows of a chunk as plain columns; errors are returned, not raised.

    Parameters
    ----------
    chunk, source
    table : pyarrow.Table
        As `parse_chunk` returns it, with a row at least.
    columns : FileColumns
        The columns of the file: those that the chunk lacks are null there.
    """
    table, notes = convert_numbers(_with_columns(table, columns.kinds), columns.numbers, source.csv), FileNotes()
    if chunk.file.format == "csv":
        notes.text_profiles = profile_texts(table, declared_texts(source))
    if chunk.file.format != "generator":  # what is made is plain
        try:
            table = clean_chunk(table, chunk.file, ColumnFilter(source), notes)
        except GpupipeError as error:
            return table, PlainChunk(error=error)
    empty = frozenset(name for name, column in _columns_of(table).items() if column.null_count == table.num_rows)
    return table, PlainChunk(dict(zip(table.column_names, table.schema.types, strict=True)), empty, notes)


def to_final_chunk(
    chunk: SourceChunk, source: TableSource, table: pa.Table, partitions: HivePartitions, columns: SourceColumns
) -> pa.Table:
    """Return those rows of a plain chunk that pass the filter, with the columns of the whole source.

    Parameters
    ----------
    chunk, source
    table : pyarrow.Table
        As `to_plain_chunk` returns it.
    partitions : HivePartitions
        Of all files.
    columns : SourceColumns
    """
    table = partitions.add_columns(table, chunk.file, ColumnFilter(source))
    table = _with_columns(table, dict(zip(columns.together.names, columns.together.types, strict=True)))
    if source.where:
        table = filter_rows(table, source.where)
    return _with_columns(table, dict(zip(columns.final.names, columns.final.types, strict=True)))


def _with_columns(table: pa.Table, kinds: Kinds) -> pa.Table:
    """Return these columns of a table; one that it lacks is null."""
    found = _columns_of(table)
    return pa.table(
        {n: cast_to(found[n], kind) if n in found else pa.nulls(table.num_rows, kind) for n, kind in kinds.items()}
    )


def _columns_of(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _parse(chunk: SourceChunk, wanted: ColumnFilter, source: TableSource, notes: Notes) -> pa.Table:
    file = chunk.file
    if file.format == "generator":
        return generate_rows(source, wanted, chunk.span or (0, source.rows))
    if file.format == "csv":
        header = header_of(file, source, notes)
        if header is None:
            return pa.table({})
        table = read_rows(file, header, wanted, source, notes, chunk.span, lines_are_rows=chunk.lines_are_rows)
        return table if chunk.is_whole else merge_chunks(table)
    if chunk.span is not None:
        table = read_lines(file, chunk.span)
        if not table.num_columns and table.num_rows:  # rows of {}: that they are rows is lost without a column
            raise DataError("the rows are empty objects", where=mask(file.path))  # it is read as a whole then
        return table.select(usable_names(table.schema, file, wanted, notes)) if table.num_columns else table
    if chunk.groups is not None:
        if file.format == "orc":
            return read_stripes(file, wanted, notes, chunk.groups)
        return next(read_groups(file, wanted, notes, [chunk.groups]))
    table = load_reader(file.format)(file, wanted, source, notes)
    return pa.table({}) if table is None else table


def _parse_as(chunk: SourceChunk, source: TableSource, name: str, kind: pa.DataType) -> pa.Table:
    file = chunk.file
    if file.format == "csv":
        header = header_of(file, source, Notes())
        assert header is not None
        given = header, ColumnFilter(source), source, Notes(), chunk.span
        return read_rows(file, *given, kinds={name: kind}, lines_are_rows=chunk.lines_are_rows)
    return read_lines(file, chunk.span, kinds={name: kind})

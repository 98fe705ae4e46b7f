"""A source in pieces that are read by themselves, wherever that is: row groups, stripes, rows of text, whole files.

What a column is depends on all pieces, so a piece is read in three steps, and what each step finds is for
`gpupipe.io.chunks.agreement` to agree upon before the next: its columns as its parser types them (`read_piece`,
`read_again`), as plain ones (`plain_piece`), and as those of the whole source (`final_piece`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from gpupipe.errors import DataError, GpupipeError
from gpupipe.io.chunks.chunk import FileColumns, Kinds, ParsedChunk, PlainChunk, SourceChunk, SourceColumns
from gpupipe.io.chunks.file_notes import FileNotes, plain_part
from gpupipe.io.chunks.packed_tables import in_one_chunk
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.combine import cast_to
from gpupipe.io.files import mask
from gpupipe.io.filter import filter_rows
from gpupipe.io.formats.csv.reader import declared_texts, header_of, read_rows
from gpupipe.io.formats.csv.stray_values import textures
from gpupipe.io.formats.csv.texts import cleaned, with_numbers
from gpupipe.io.formats.jsonl.reader import read_lines
from gpupipe.io.formats.orc import read_stripes
from gpupipe.io.formats.parquet import read_groups
from gpupipe.io.formats.registry import load_reader
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.missing_values import TEXT
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.io.read import generated
from gpupipe.io.settings import TableSource


def read_piece(piece: SourceChunk, source: TableSource) -> tuple[pa.Table, ParsedChunk]:
    """Return the rows of a piece as its parser types them, CSV texts cleaned; errors are returned, not raised."""
    wanted, notes = ColumnFilter(source), FileNotes()
    try:
        table = _parse(piece, wanted, source, notes.about_file)
    except GpupipeError as error:
        return pa.table({}), ParsedChunk(error=error)
    numbers, columns = {}, _columns_of(table)
    if piece.file.format == "csv":
        for name, column in columns.items():
            if column.type == TEXT:
                columns[name], numbers[name] = cleaned(column, source.csv)
        table = pa.table(columns) if numbers else table
    notes.n_rows = table.num_rows
    kinds = dict(zip(table.column_names, table.schema.types, strict=True))
    left_out = tuple(name for name in wanted.seen if name not in kinds and wanted.is_wanted(name))
    return table, ParsedChunk(table.num_rows, kinds, left_out, numbers, {}, tuple(wanted.seen), notes)


def read_again(
    piece: SourceChunk, source: TableSource, table: pa.Table, parsed: ParsedChunk, kinds: Mapping[str, pa.DataType]
) -> tuple[pa.Table, ParsedChunk]:
    """Return what `read_piece` has returned, with these columns read anew as these types, where that is possible."""
    found, numbers, refused = dict(parsed.kinds), dict(parsed.numbers), dict(parsed.refused)
    columns = _columns_of(table)
    for name, kind in kinds.items():
        try:
            columns[name] = _parse_as(piece, source, name, kind).column(name)
        except DataError:
            refused[name] = refused.get(name, frozenset()) | {kind}
            continue
        if kind == TEXT:
            columns[name], numbers[name] = cleaned(columns[name], source.csv)
        found[name] = kind
    return pa.table(columns), replace(parsed, kinds=found, numbers=numbers, refused=refused)


def plain_piece(
    piece: SourceChunk, source: TableSource, table: pa.Table, columns: FileColumns
) -> tuple[pa.Table, PlainChunk]:
    """Return the rows of a piece as plain columns; errors are returned, not raised.

    Parameters
    ----------
    piece, source
    table : pyarrow.Table
        As `read_piece` returns it, with a row at least.
    columns : FileColumns
        The columns of the file: those that the piece lacks are null there.
    """
    table, notes = with_numbers(_with_columns(table, columns.kinds), columns.numbers, source.csv), FileNotes()
    if piece.file.format == "csv":
        notes.textures = textures(table, declared_texts(source))
    if piece.file.format != "generator":  # what is made is plain
        try:
            table = plain_part(table, piece.file, ColumnFilter(source), notes)
        except GpupipeError as error:
            return table, PlainChunk(error=error)
    empty = frozenset(name for name, column in _columns_of(table).items() if column.null_count == table.num_rows)
    return table, PlainChunk(dict(zip(table.column_names, table.schema.types, strict=True)), empty, notes)


def final_piece(
    piece: SourceChunk, source: TableSource, table: pa.Table, partitions: HivePartitions, columns: SourceColumns
) -> pa.Table:
    """Return those rows of a plain piece that pass the filter, with the columns of the whole source.

    Parameters
    ----------
    piece, source
    table : pyarrow.Table
        As `plain_piece` returns it.
    partitions : HivePartitions
        Of all files.
    columns : SourceColumns
    """
    table = partitions.added_to(table, piece.file, ColumnFilter(source))
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


def _parse(piece: SourceChunk, wanted: ColumnFilter, source: TableSource, notes: Notes) -> pa.Table:
    file = piece.file
    if file.format == "generator":
        return generated(source, wanted, piece.span or (0, source.rows))
    if file.format == "csv":
        header = header_of(file, source, notes)
        if header is None:
            return pa.table({})
        table = read_rows(file, header, wanted, source, notes, piece.span, lines_are_rows=piece.lines_are_rows)
        return table if piece.is_whole else in_one_chunk(table)
    if piece.span is not None:
        table = read_lines(file, piece.span)
        if not table.num_columns and table.num_rows:  # rows of {}: that they are rows is lost without a column
            raise DataError("the rows are empty objects", where=mask(file.path))  # it is read as a whole then
        return table.select(usable_names(table.schema, file, wanted, notes)) if table.num_columns else table
    if piece.groups is not None:
        if file.format == "orc":
            return read_stripes(file, wanted, notes, piece.groups)
        return next(read_groups(file, wanted, notes, [piece.groups]))
    table = load_reader(file.format)(file, wanted, source, notes)
    return pa.table({}) if table is None else table


def _parse_as(piece: SourceChunk, source: TableSource, name: str, kind: pa.DataType) -> pa.Table:
    file = piece.file
    if file.format == "csv":
        header = header_of(file, source, Notes())
        assert header is not None
        given = header, ColumnFilter(source), source, Notes(), piece.span
        return read_rows(file, *given, kinds={name: kind}, lines_are_rows=piece.lines_are_rows)
    return read_lines(file, piece.span, kinds={name: kind})

"""Reader of one chunk of a source: row groups, stripes, rows of text, or a whole file.

The type of a column depends on all chunks. A chunk is first read as if it were the whole file; if
`gpupipe.io.chunks.column_agreement` determines another type for a column, the chunk is read again with that type.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from gpupipe.errors import DataError, GpupipeError
from gpupipe.io.chunks.chunk import ChunkColumns, ChunkFacts, Kinds, SourceChunk
from gpupipe.io.chunks.compact_tables import merge_chunks
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.concatenation import cast_to
from gpupipe.io.file_formats import load_generator
from gpupipe.io.files import mask
from gpupipe.io.filter import filter_rows
from gpupipe.io.formats.csv.text_columns import choose_numbers, clean_text_columns, convert_numbers
from gpupipe.io.formats.readers import load_reader
from gpupipe.io.hive_partitions import HivePartitions
from gpupipe.io.in_memory import FORMAT as MEMORY
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import clean_table, usable_names
from gpupipe.io.settings import TableSource, declared_texts
from gpupipe.io.stray_values import profile_texts


def read_chunk(
    chunk: SourceChunk, source: TableSource, wanted: ColumnFilter, columns: ChunkColumns | None = None
) -> tuple[pa.Table, ChunkFacts]:
    """Return the plain rows of a chunk and the facts about it; if reading failed, no rows and facts with the reason.

    `columns`: types of the columns of a text file; default: inferred from the values of the chunk.

    Raises
    ------
    DataError, SchemaError
        If the rows are corrupt or a column requested by name is unusable. For part of a text file, no error is raised,
        because row numbers are known only when the whole file is read: ``failed`` is set in the facts.
    """
    try:
        return _read(chunk, source, wanted.fresh(), columns)
    except GpupipeError:
        if chunk.is_whole or not chunk.is_text:
            raise
        return pa.table({}), ChunkFacts(failed=True)


def select_source_columns(
    table: pa.Table, chunk: SourceChunk, wanted: ColumnFilter, partitions: HivePartitions, schema: pa.Schema
) -> pa.Table:
    """Return the plain rows of a chunk with the columns of all files, null for columns that its file lacks."""
    table = partitions.add_columns(table, chunk.file, wanted)
    if table.schema.equals(schema):
        return table
    found = dict(zip(table.column_names, table.columns, strict=True))
    columns = [
        cast_to(found[field.name], field.type) if field.name in found else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def finish_chunk(
    table: pa.Table,
    chunk: SourceChunk,
    source: TableSource,
    wanted: ColumnFilter,
    partitions: HivePartitions,
    schema: pa.Schema,
) -> pa.Table:
    """Return the plain rows of a chunk that pass the filter, with the selected columns.

    `partitions`: partition columns of all files. `schema`: common schema of all files. Raise SchemaError if a selected
    column is missing.
    """
    table = select_source_columns(table, chunk, wanted, partitions, schema)
    if source.where:
        table = filter_rows(table, source.where)
    return wanted.select(table, mask(source.label))


def generate_rows(source: TableSource, wanted: ColumnFilter, rows: tuple[int, int]) -> pa.Table:
    """Generate the rows from ``rows[0]`` up to ``rows[1]`` (exclusive) of a source, with the selected columns."""
    generator = load_generator(source.generate or "")
    names = wanted.pick(generator(0, source.seed, None).column_names)
    return generator(rows[1] - rows[0], source.seed, names, rows[0])


def _read(
    chunk: SourceChunk, source: TableSource, wanted: ColumnFilter, columns: ChunkColumns | None
) -> tuple[pa.Table, ChunkFacts]:
    notes = Notes()
    try:
        table = _parse(chunk, wanted, source, notes, None if columns is None else columns.kinds)
    except DataError:
        refused = _refused(chunk, wanted, source, columns.kinds) if columns else {}
        if not refused:
            raise
        return pa.table({}), ChunkFacts(refused=refused)
    if table is None or not table.num_rows:
        return pa.table({}), ChunkFacts(seen=tuple(wanted.seen), notes=notes)
    held: dict[str, tuple[pa.DataType, ...]] = {}
    kinds, numbers = _kinds(table) if chunk.is_text else {}, Kinds()
    if chunk.file.format == "csv":
        texts = declared_texts(source)
        table, held = clean_text_columns(table, source.csv, source.keys)
        chosen = choose_numbers(held, texts) if columns is None else columns.numbers
        numbers = {name: kind for name, kind in chosen.items() if kind in held.get(name, ())}
        table = convert_numbers(table, numbers, source.csv)
    known = frozenset(table.column_names)  # pyarrow makes a list of all names at each access
    unusable = tuple(name for name in wanted.seen if name not in known and wanted.is_wanted(name))
    if chunk.file.format != "generator":  # generated columns are plain
        table = clean_table(table, chunk.file, wanted, notes, source.strips_typed_files)
    if chunk.file.format in ("csv", MEMORY):
        for name, profile in profile_texts(table, declared_texts(source)).items():
            notes.add_profile(name, profile)
    columns_of_table = zip(table.column_names, table.columns, strict=True)
    empty = frozenset(name for name, column in columns_of_table if column.null_count == len(column))
    read_as = ChunkColumns(kinds or _kinds(table), numbers)
    return table, ChunkFacts(
        table.num_rows, read_as, table.schema, empty, unusable, held, {}, seen=tuple(wanted.seen), notes=notes
    )


def _parse(
    chunk: SourceChunk, wanted: ColumnFilter, source: TableSource, notes: Notes, kinds: Mapping[str, pa.DataType] | None
) -> pa.Table | None:
    file = chunk.file
    if file.format == "generator":
        return generate_rows(source, wanted, chunk.span or (0, source.rows))
    if file.format == MEMORY:
        assert source.frame is not None
        return source.frame.table.select(usable_names(source.frame.table.schema, file, wanted, notes))
    read = load_reader(file.format)
    table: pa.Table | None
    if file.format == "csv":
        table = read(file, wanted, source, notes, chunk.span, kinds, lines_are_rows=chunk.lines_are_rows)
        return table if chunk.is_whole or table is None else merge_chunks(table)
    if file.format == "jsonl":
        table = read(file, wanted, source, notes, chunk.span, kinds)
    elif chunk.groups is not None:
        table = read(file, wanted, source, notes, chunk.groups)
    else:
        table = read(file, wanted, source, notes)
    return table


def _refused(
    chunk: SourceChunk, wanted: ColumnFilter, source: TableSource, kinds: Kinds
) -> dict[str, frozenset[pa.DataType]]:
    """Return the types of `kinds` that cannot parse a column, by column."""
    refused = {}
    for name, kind in kinds.items():
        try:
            _parse(chunk, wanted, source, Notes(), {name: kind})
        except DataError:
            refused[name] = frozenset([kind])
    return refused


def _kinds(table: pa.Table) -> Kinds:
    return dict(zip(table.column_names, table.schema.types, strict=True))

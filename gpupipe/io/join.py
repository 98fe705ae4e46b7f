"""Join the ``tables:`` of a configuration to the main table: look up their columns by key for every row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import ROWS_COUNTED, SchemaError
from gpupipe.io.entities import read_entities
from gpupipe.io.filter import require_column
from gpupipe.io.input_files import InputFiles
from gpupipe.io.notes import Notes
from gpupipe.io.settings import JoinedTable, Source, TableSource
from gpupipe.io.source_reader import LoadedTable, read_arrow
from gpupipe.table.key_matches import KeyMatches
from gpupipe.table.keys import find_repeated, key_codes
from gpupipe.table.numeric_columns import as_numbers
from gpupipe.table.schema import DeclaredColumn


def read_joined(
    source: Source,
    tables: Mapping[str, JoinedTable] | None = None,
    columns: Iterable[str] | None = None,
    files: InputFiles | None = None,
) -> LoadedTable:
    """Read the main table and join the other tables to it in their order; a key may come from a table joined before.

    The result has each row of the main table once, in its order. Without a match, the joined columns are null. Event
    tables (``one_to_many``) are not joined; the rows of a source with ``entities`` are built from one of them. With
    `columns`, the result has exactly these and the targets. `files` are the files of all tables, if already listed.
    Raise DataError if a file cannot be read; SchemaError if a key column is missing, key types cannot be compared, a
    key occurs more often than the cardinality allows, or two columns would have the same name.
    """
    all_tables = tables or {}
    files = InputFiles.find(source, all_tables) if files is None else files
    tables = {name: joined for name, joined in all_tables.items() if joined.is_joined}
    if source.entities is not None:
        loaded = read_entities(source, all_tables, files)
    elif not tables:
        return read_arrow(source, columns, files=files.source)
    else:
        loaded = read_arrow(source, files=files.source)
    for name, joined in tables.items():
        loaded = _joined(loaded, name, joined, read_arrow(joined, files=files.tables[name]))
    if columns is None:
        return loaded
    wanted = [*columns, *source.targets]
    for name in wanted:
        require_column(loaded.table.column_names, name, "the joined tables")
    kept = [name for name in loaded.table.column_names if name in wanted]
    return replace(loaded, table=loaded.table.select(kept))


def declarations(source: TableSource, tables: Mapping[str, JoinedTable]) -> dict[str, DeclaredColumn]:
    """Return the columns declared in ``schema:`` of a source and of the tables joined to it."""
    declared = source.declarations()
    for joined in filter(lambda table: table.is_joined, tables.values()):
        keys = joined.on.right  # the join keeps the keys of the left side
        declared |= {f"{joined.prefix}{n}": kind for n, kind in joined.declarations().items() if n not in keys}
    return declared


def _joined(left: LoadedTable, name: str, joined: JoinedTable, right: LoadedTable) -> LoadedTable:
    left_codes, right_codes = _keys(left.table, name, joined, right.table)
    require_unique(right_codes, right.table, joined.on.right, joined, f"table {name!r}")
    if joined.cardinality == "one_to_one":
        require_unique(left_codes, left.table, joined.on.left, joined, "the main table")
    table, matches = _looked_up(left.table, name, joined, right.table, left_codes, right_codes)
    notes = Notes()
    notes.include(left.notes)
    notes.include(right.notes)
    notes.add(matches.note(f"table {name!r}"))
    return replace(left, table=table, files=[*left.files, *right.files], notes=notes)


def require_joinable(left: pa.Schema, name: str, joined: JoinedTable, right: pa.Table) -> None:
    """Raise SchemaError for what prevents a ``many_to_one`` join of any chunk: errors of types, names and `right`.

    As the types of the keys determine how they are compared, a join by chunk gives the result of a join of all rows.
    """
    _, right_codes = _keys(left.empty_table(), name, joined, right)
    require_unique(right_codes, right, joined.on.right, joined, f"table {name!r}")
    joined_names(left.names, right.column_names, name, joined)


def join_chunk(left: pa.Table, name: str, joined: JoinedTable, right: pa.Table) -> tuple[pa.Table, KeyMatches]:
    """Join a chunk with a table that passed `require_joinable`; return the rows and the numbers of matches."""
    return _looked_up(left, name, joined, right, *_keys(left, name, joined, right))


def _looked_up(
    left: pa.Table, name: str, joined: JoinedTable, right: pa.Table, left_codes: pa.Array, right_codes: pa.Array
) -> tuple[pa.Table, KeyMatches]:
    places = pc.index_in(left_codes, value_set=right_codes, skip_nulls=True)
    matches = KeyMatches.of(left, joined.on.left, right, joined.on.right, places)
    return _with_columns(left, right, places, name, joined), matches


def _keys(left: pa.Table, name: str, joined: JoinedTable, right: pa.Table) -> tuple[pa.Array, pa.Array]:
    label = f"table {name!r}"
    for key in joined.on.left:
        require_column(left.column_names, key, "the main table")
    for key in joined.on.right:
        require_column(right.column_names, key, label)
    return key_codes(left, joined.on.left, declared_keys(right, joined), joined.on.right, label)


def declared_keys(table: pa.Table, joined: JoinedTable) -> pa.Table:
    """Return a table in which keys that ``schema:`` declares as numbers are numbers; other keys are unchanged.

    Raise SchemaError if such a key is not a number.
    """
    declared = joined.declarations()
    for name in joined.on.right:
        if name in declared and declared[name].kind == "numeric":
            numbers = as_numbers(name, table.column(name), declared[name].number_format)
            table = table.set_column(table.column_names.index(name), name, numbers)
    return table


def _with_columns(left: pa.Table, right: pa.Table, matches: pa.Array, table_name: str, joined: JoinedTable) -> pa.Table:
    """Return `left` with the columns of the matching rows of `right`, null without a match."""
    names = joined_names(left.column_names, right.column_names, table_name, joined)
    # One dictionary per column, as rows are gathered from all chunks.
    right = right.select(list(names)).unify_dictionaries().combine_chunks()
    for old, new in names.items():
        left = left.append_column(new, right.column(old).take(matches))
    return left


def joined_names(left: Sequence[str], right: Sequence[str], table_name: str, joined: JoinedTable) -> dict[str, str]:
    """Return the columns that the join adds: their new names by name in the joined table.

    Raise SchemaError if the main table already has a column of one of these names.
    """
    names = {name: joined.prefix + name for name in right if name not in joined.on.right}
    shared = [new for new in names.values() if new in left]
    if shared:
        raise SchemaError(
            f"both tables have {', '.join(map(repr, shared))}",
            where=f"table {table_name!r}",
            fix=f"set a prefix for the joined columns, as in prefix: {table_name}_, or drop them from one table",
            names=shared,
        )
    return names


def require_unique(codes: pa.Array, table: pa.Table, names: Sequence[str], joined: JoinedTable, label: str) -> None:
    """Raise SchemaError, with row numbers, if a key of `table` occurs twice; `codes` are the key codes of its rows."""
    rows = find_repeated(codes)
    if rows:
        key = ", ".join(f"{name}={table.column(name)[rows[0]].as_py()!r}" for name in names)
        raise SchemaError(
            f"the join is declared {joined.cardinality}, but the key {key} occurs more than once",
            where=f"{label}, rows {', '.join(map(str, rows))}; {ROWS_COUNTED}",
            fix="remove the duplicates, or aggregate the table to one row per key first",
        )

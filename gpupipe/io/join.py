"""``tables:``: columns looked up by key in further tables, for every row of the main one, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError, did_you_mean
from gpupipe.io.entities import read_entities
from gpupipe.io.input_files import InputFiles
from gpupipe.io.notes import Notes
from gpupipe.io.settings import JoinedTable, Source, TableSource
from gpupipe.io.source_reader import LoadedTable, read_arrow
from gpupipe.table.keys import find_repeated, key_codes
from gpupipe.table.schema import DeclaredColumn


def read_joined(
    source: Source,
    tables: Mapping[str, JoinedTable] | None = None,
    columns: Iterable[str] | None = None,
    files: InputFiles | None = None,
) -> LoadedTable:
    """Read the main table, and join the others to it in turn (a later one may have its keys in an earlier one).

    Every row of the main table is kept, once, in its order; where a key has no match the joined columns are null.

    Parameters
    ----------
    source : Source
    tables : mapping of str to JoinedTable, optional
        Name to table, joined in this order. Those of events (``one_to_many``) are not joined; a source with
        ``entities`` is made of one of them.
    columns : iterable of str, optional
        Keep exactly these columns of the result, and the target.
    files : InputFiles, optional
        The files of all tables, if they were listed already.

    Raises
    ------
    DataError
        If a file cannot be read.
    SchemaError
        If a key column is absent, keys have types that cannot be compared, a key is there more often than the
        cardinality says, or two columns would have one name.
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
    wanted = [*columns, *([source.target] if source.target else [])]
    for name in wanted:
        require_column(loaded.table.column_names, name, "the tables joined together")
    kept = [name for name in loaded.table.column_names if name in wanted]
    return replace(loaded, table=loaded.table.select(kept))


def declarations(source: TableSource, tables: Mapping[str, JoinedTable]) -> dict[str, DeclaredColumn]:
    """Return what ``schema:`` says of the columns of a source and of the tables that are joined to it."""
    declared = source.declarations()
    for joined in filter(lambda table: table.is_joined, tables.values()):
        keys = joined.on.right  # not in the joined table: the left side has them
        declared |= {f"{joined.prefix}{n}": kind for n, kind in joined.declarations().items() if n not in keys}
    return declared


def _joined(left: LoadedTable, name: str, joined: JoinedTable, right: LoadedTable) -> LoadedTable:
    left_codes, right_codes = _keys(left.table, name, joined, right.table)
    require_unique(right_codes, right.table, joined.on.right, joined, f"table {name!r}")
    if joined.cardinality == "one_to_one":
        require_unique(left_codes, left.table, joined.on.left, joined, "the main table")
    matches = pc.index_in(left_codes, value_set=right_codes, skip_nulls=True)
    table = _with_columns(left.table, right.table, matches, name, joined)
    notes = Notes()
    notes.include(left.notes)
    notes.include(right.notes)
    notes.say(match_note(f"table {name!r}", matches.null_count, len(matches)))
    return replace(left, table=table, files=[*left.files, *right.files], notes=notes)


def can_join_by_chunk(left: pa.Schema, name: str, joined: JoinedTable, right: pa.Table) -> bool:
    """Return whether joining a table chunk by chunk (``many_to_one``) gives the same table as joining it at once.

    They do where how keys are compared depends on their types alone.

    Raises
    ------
    SchemaError
        As `read_joined`, as far as the table on the right goes.
    """
    empty = left.empty_table()
    _, right_codes = _keys(empty, name, joined, right)
    require_unique(right_codes, right, joined.on.right, joined, f"table {name!r}")
    joined_names(left.names, right.column_names, name, joined)
    pairs = zip(joined.on.left, joined.on.right, strict=True)
    return all(_family(left.field(a).type) == _family(right.field(b).type) != "" for a, b in pairs)


def join_chunk(left: pa.Table, name: str, joined: JoinedTable, right: pa.Table) -> tuple[pa.Table, int]:
    """Join a chunk with a table that `can_join_by_chunk`; return its rows and the number without a match."""
    left_codes, right_codes = _keys(left, name, joined, right)
    matches = pc.index_in(left_codes, value_set=right_codes, skip_nulls=True)
    return _with_columns(left, right, matches, name, joined), matches.null_count


def _keys(left: pa.Table, name: str, joined: JoinedTable, right: pa.Table) -> tuple[pa.Array, pa.Array]:
    label = f"table {name!r}"
    for key in joined.on.left:
        require_column(left.column_names, key, "the main table")
    for key in joined.on.right:
        require_column(right.column_names, key, label)
    return key_codes(left, joined.on.left, right, joined.on.right, label)


def _family(kind: pa.DataType) -> str:
    """Return what keys of a type are compared as, if that does not depend on their values; else ""."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return "integer" if pa.types.is_integer(kind) else "text" if pa.types.is_string(kind) else ""


def _with_columns(left: pa.Table, right: pa.Table, matches: pa.Array, table_name: str, joined: JoinedTable) -> pa.Table:
    """Return `left` with the columns of those rows of `right` that match, null where none does."""
    names = joined_names(left.column_names, right.column_names, table_name, joined)
    # One dictionary per column: rows are gathered from all chunks into one.
    right = right.select(list(names)).unify_dictionaries().combine_chunks()
    for old, new in names.items():
        left = left.append_column(new, right.column(old).take(matches))
    return left


def joined_names(left: Sequence[str], right: Sequence[str], table_name: str, joined: JoinedTable) -> dict[str, str]:
    """Return the columns of a table that are joined, and what they are called then.

    Raises
    ------
    SchemaError
        If the main table has a column of that name.
    """
    names = {name: joined.prefix + name for name in right if name not in joined.on.right}
    shared = [new for new in names.values() if new in left]
    if shared:
        raise SchemaError(
            f"both tables have {', '.join(map(repr, shared))}",
            where=f"table {table_name!r}",
            fix=f"give the joined columns a prefix, as in prefix: {table_name}_, or drop them from one table",
            names=shared,
        )
    return names


def match_note(label: str, n_without: int, n_rows: int) -> str:
    """Return how many rows a table has a match for."""
    return f"{label}: a match for {1 - n_without / n_rows:.1%} of the rows"


def require_unique(codes: pa.Array, table: pa.Table, names: Sequence[str], joined: JoinedTable, label: str) -> None:
    """Raise SchemaError, which names the rows, if a key of `table` is there twice; `codes` are those of its rows."""
    rows = find_repeated(codes)
    if rows:
        key = ", ".join(f"{name}={table.column(name)[rows[0]].as_py()!r}" for name in names)
        raise SchemaError(
            f"the join is declared {joined.cardinality}, but the key {key} is there more than once",
            where=f"{label}, rows {', '.join(str(row + 1) for row in rows)}",
            fix="remove the duplicates, or aggregate the table to one row per key first",
        )


def require_column(names: Sequence[str], name: str, label: str) -> None:
    """Raise SchemaError if `name` is not among the columns of the table `label`."""
    if name not in names:
        hint = did_you_mean(name, names) or f"the columns are {', '.join(names[:20])}"
        raise SchemaError(f"there is no column {name!r}", where=label, fix=hint, names=[name])

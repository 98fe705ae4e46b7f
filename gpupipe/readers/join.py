"""``tables:``: columns looked up by key in further tables, for every row of the main one, in its order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import SchemaError, did_you_mean
from gpupipe.readers.read import BaseDir, Loaded, read_arrow
from gpupipe.readers.settings import JoinedTable, Source
from gpupipe.table.keys import key_codes, repeated


def read_joined(
    source: Source,
    tables: Mapping[str, JoinedTable] | None = None,
    base_dir: BaseDir = None,
    columns: Iterable[str] | None = None,
) -> Loaded:
    """Read the main table, and join the others to it in turn (a later one may have its keys in an earlier one).

    Every row of the main table is kept, once, in its order; where a key has no match the joined columns are null.

    Parameters
    ----------
    source : Source
    tables : mapping of str to JoinedTable, optional
        Name to table, joined in this order; those of events (``one_to_many``) are not.
    base_dir : path, optional
        The folder of the configuration.
    columns : iterable of str, optional
        Keep exactly these columns of the result, and the target.

    Raises
    ------
    DataError
        If a file cannot be read.
    SchemaError
        If a key column is absent, keys have types that cannot be compared, a key is there more often than the
        cardinality says, or two columns would have one name.
    """
    tables = {name: joined for name, joined in (tables or {}).items() if joined.is_joined}
    if not tables:
        return read_arrow(source, base_dir, columns)
    loaded = read_arrow(source, base_dir)
    for name, joined in tables.items():
        loaded = _joined(loaded, name, joined, read_arrow(joined, base_dir))
    if columns is None:
        return loaded
    wanted = [*columns, *([source.target] if source.target else [])]
    for name in wanted:
        _require(loaded.table, name, "the tables joined together")
    kept = [name for name in loaded.table.column_names if name in wanted]
    return Loaded(loaded.table.select(kept), loaded.files, loaded.notes)


def _joined(left: Loaded, name: str, joined: JoinedTable, right: Loaded) -> Loaded:
    label = f"table {name!r}"
    for key in joined.on.left:
        _require(left.table, key, "the main table")
    for key in joined.on.right:
        _require(right.table, key, label)
    left_codes, right_codes = key_codes(left.table, joined.on.left, right.table, joined.on.right, label)
    _require_unique(right_codes, right.table, joined.on.right, joined, label)
    if joined.cardinality == "one_to_one":
        _require_unique(left_codes, left.table, joined.on.left, joined, "the main table")
    matches = pc.index_in(left_codes, value_set=right_codes, skip_nulls=True)
    table = _with_columns(left.table, right.table, matches, name, joined)
    share = 1 - matches.null_count / len(matches)
    notes = [*left.notes, *right.notes, f"{label}: a match for {share:.1%} of the rows"]
    return Loaded(table, [*left.files, *right.files], list(dict.fromkeys(notes)))


def _with_columns(left: pa.Table, right: pa.Table, matches: pa.Array, table_name: str, joined: JoinedTable) -> pa.Table:
    """Return `left` with the columns of those rows of `right` that match, null where none does."""
    names = [name for name in right.column_names if name not in joined.on.right]
    shared = [joined.prefix + name for name in names if joined.prefix + name in left.column_names]
    if shared:
        raise SchemaError(
            f"both tables have {', '.join(map(repr, shared))}",
            where=f"table {table_name!r}",
            fix=f"give the joined columns a prefix, as in prefix: {table_name}_, or drop them from one table",
        )
    # One dictionary per column: rows are gathered from all chunks into one.
    right = right.select(names).unify_dictionaries().combine_chunks()
    for name in names:
        left = left.append_column(joined.prefix + name, right.column(name).take(matches))
    return left


def _require_unique(codes: pa.Array, table: pa.Table, names: Sequence[str], joined: JoinedTable, label: str) -> None:
    rows = repeated(codes)
    if rows:
        key = ", ".join(f"{name}={table.column(name)[rows[0]].as_py()!r}" for name in names)
        raise SchemaError(
            f"the join is declared {joined.cardinality}, but the key {key} is there more than once",
            where=f"{label}, rows {', '.join(str(row + 1) for row in rows)}",
            fix="remove the duplicates, or aggregate the table to one row per key first",
        )


def _require(table: pa.Table, name: str, label: str) -> None:
    if name not in table.column_names:
        hint = did_you_mean(name, table.column_names) or f"the columns are {', '.join(table.column_names[:20])}"
        raise SchemaError(f"there is no column {name!r}", where=label, fix=hint)

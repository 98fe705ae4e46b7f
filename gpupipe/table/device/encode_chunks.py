"""A frame on a device that comes in parts to the encoded table that `gpupipe.table.device.encode` makes of the whole.

As `gpupipe.table.encode_chunks` on the host: a first pass finds out what the columns are, a second one writes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.table.blocks import Table, allocate
from gpupipe.table.column_summary import ColumnSummary
from gpupipe.table.device.columns import DeviceText, joined
from gpupipe.table.device.encode import ColumnEncoder, TextRules
from gpupipe.table.encode import require, require_distinct
from gpupipe.table.schema import DeclaredColumn, Schema

Columns = Mapping[str, Any]
NO_RULES = TextRules()


def encode_frame_parts(
    parts: Callable[[], Iterable[Columns]],
    backend: Backend,
    most_rows: int,
    declared: Mapping[str, DeclaredColumn] | None = None,
    rules: TextRules = NO_RULES,
) -> Table:
    """Encode a frame that comes in parts, where it is.

    Parameters
    ----------
    parts : callable
        Returns the parts, in order and the same ones at each call: one at least, with rows, as `encode_frame` takes
        them, all with the same columns of the same types.
    backend : Backend
    most_rows : int
        The parts have no more rows than this.
    declared : mapping of str to DeclaredColumn, optional
        What the configuration says of columns; the rest is inferred.
    rules : TextRules
        What the reader makes of texts: of each by itself, and a text each time.

    Returns
    -------
    Table
        As `encode_frame` returns it for the rows of all parts.

    Raises
    ------
    SchemaError
        As `encode_frame`, but the rows that it names are those of a part.
    """
    schema, n_rows = _look(parts, backend, most_rows, declared or {}, rules)
    blocks, places = allocate(schema, n_rows, backend.xp)
    texts: dict[str, list[DeviceText]] = {column.name: [] for column in schema if not column.storage}
    start = 0
    for part in parts():
        stop = start + _n_rows(part)
        for column in schema:
            plan = ColumnEncoder(column.name, part[column.name], backend, rules).enforced(column)
            if plan.write is None:
                texts[column.name].append(plan.text)
            else:
                block, row = places[column.name]
                plan.write(blocks[block][row][start:stop])
        start = stop
    return Table(schema, n_rows, blocks, places, {name: joined(found, backend) for name, found in texts.items()})


def _look(
    parts: Callable[[], Iterable[Columns]],
    backend: Backend,
    most_rows: int,
    declared: Mapping[str, DeclaredColumn],
    rules: TextRules,
) -> tuple[Schema, int]:
    """Return what the columns are, and how many rows there are."""
    seen: dict[str, ColumnSummary] = {}
    n_rows = 0
    for part in parts():
        if not seen:
            require_distinct(list(part))
            require(list(part), declared, "schema: declares")
        for name, column in part.items():
            known = seen[name].kind if name in seen else declared[name].kind if name in declared else None
            values = ColumnEncoder(name, column, backend, rules).seen(known)
            if name not in seen:
                seen[name] = ColumnSummary(name, values.type, declared.get(name), most_rows)
            seen[name].add(values)
        n_rows += _n_rows(part)
    return Schema(tuple(column.column(n_rows) for column in seen.values())), n_rows


def _n_rows(part: Columns) -> int:
    return len(next(iter(part.values())))

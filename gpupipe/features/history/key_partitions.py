"""Run a history op on partitions of the keys, if memory runs out.

The features of a row depend on the rows of its key only, so the result does not depend on the partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpupipe.backends.out_of_memory import map_row_ranges
from gpupipe.features.history.derivation import DerivedColumn
from gpupipe.features.history.keys import EntityKeys
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.table.blocks import concatenate_texts
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.features.ops.keyed_op import KeyedOp
    from gpupipe.table.schema import Column


KeyPartition = tuple["Array | None", Sequence[DerivedColumn]]
"""Rows of the main table with some of the keys (None: all rows), and the columns derived for them."""


class HistoryRowSubset(HistoryRows):
    """A subset of the rows of a `HistoryRows`, which records the columns read; encoded columns only."""

    def __init__(self, of: HistoryRows, rows: Array) -> None:
        super().__init__(of.table, {}, of.label, of.unknown)
        self._of, self._rows = of, rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def column(self, name: str, *kinds: str, past: bool = False) -> tuple[Column, Array]:
        """Return a column and its values at these rows; see `HistoryRows.column`."""
        column, values = self._of.column(name, *kinds, past=past)
        return column, values[self._rows]


def derive_by_keys(op: KeyedOp, sources: DerivationSources) -> Sequence[DerivedColumn]:
    """Return the columns of `op`, computed for fewer keys at a time, with a note, if memory runs out.

    Raise LimitError if the history of one key does not fit in memory.
    """
    keys = op.keys(sources)

    def work(start: int, stop: int) -> KeyPartition:
        if stop - start >= keys.size:
            return None, list(op.derive(sources))
        sources.memory.clear()  # free the histories of all keys, cached by earlier ops
        return derive_partition(op, sources, keys, start, stop)

    what = f"the history of {op.table or 'the table'}"
    return merge_partitions(map_row_ranges(work, keys.size, sources.backend, what, noun="keys", least=1), sources)


def derive_partition(op: KeyedOp, sources: DerivationSources, keys: EntityKeys, start: int, stop: int) -> KeyPartition:
    """Return the columns of `op` for the rows with keys ``start:stop``; null keys belong to the first partition."""
    xp = sources.backend.xp
    rows = xp.flatnonzero((keys.main < stop) & (keys.main >= (start or -1)))
    seen = rows if op.table is None else xp.flatnonzero((keys.events < stop) & (keys.events >= start))
    main, events = HistoryRowSubset(sources.main, rows), dict(sources.events)
    if op.table is not None:
        further = sources.table(op.table)
        events[op.table] = replace(further, rows=HistoryRowSubset(further.rows, seen))
    n_events = len(keys.events)
    part = DerivationSources(main, events, sources.backend, sources.as_of, engines=sources.engines, n_events=n_events)
    part.once(op.key_id, lambda: EntityKeys(keys.main[rows] - start, keys.events[seen] - start, stop - start))
    return rows, list(op.derive(part))


def merge_partitions(parts: Sequence[KeyPartition], sources: DerivationSources) -> Sequence[DerivedColumn]:
    """Return the columns of all rows from those of the partitions."""
    from gpupipe.arrow_numpy import number_array

    first, derived = parts[0]
    if first is None:
        return derived
    xp, columns = sources.backend.xp, []
    for i, made in enumerate(derived):
        if made.is_list:
            order = xp.argsort(xp.concatenate([rows for rows, _ in parts]))
            lists = concatenate_texts([some[i].values for _, some in parts])
            columns.append(replace(made, values=lists.take(number_array(sources.backend.to_host(order)))))
            continue
        values = xp.empty(sources.main.n_rows, made.values.dtype)
        for rows, some in parts:
            values[rows] = some[i].values
        columns.append(replace(made, values=values))
    return columns

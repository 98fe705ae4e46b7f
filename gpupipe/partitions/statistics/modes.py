"""The most frequent value of a column of a partitioned table."""

from __future__ import annotations

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.statistics.numbers import find_mode
from gpupipe.partitions.number_columns import NumberColumn, read_columns
from gpupipe.partitions.table import PartitionedTable
from gpupipe.table.blocks import Table
from gpupipe.typing import Array
from gpupipe_kernels.formulas.hashes import mix

Counted = tuple[Array, Array]  # distinct sorted values of some rows, and their counts

MOST_SENT = 2**20  # values gathered by the driver at a time


def mode(table: PartitionedTable, column: NumberColumn) -> float:
    """Return the most frequent value of a column, the smallest of several; 0 for an empty column.

    Each worker counts its own values and keeps the counts. Let m be the largest count in a single partition. A value
    with at least m rows in total has at least m / n_partitions rows in some partition; other values are not sent. Many
    values are gathered in batches by a hash, so that all counts of a value are in one batch.
    """
    counted = table.map(_counted, column, label="values")
    extents = counted.compute(lambda _, own: (len(own[0]), int(own[1].max(initial=0))), label="values")
    sizes, highest = zip(*extents, strict=True)
    least = -(-max(highest) // len(extents))
    n_turns = -(-sum(sizes) // MOST_SENT)
    best = 0.0, 0
    for turn in range(n_turns):
        values = np.unique(np.concatenate(counted.compute(_frequent, least, turn, n_turns, label="values")))
        value, count = find_mode(values, np.add.reduce(counted.compute(_counts_of, values, label="counts of values")))
        if (count, -value) > (best[1], -best[0]):
            best = value, count
    return best[0]


def _counted(backend: Backend, table: Table, column: NumberColumn) -> Counted:
    (x,) = read_columns(backend, table, [column])
    x = x[~backend.xp.isnan(x)] + 0.0  # of the two zeros, the positive one
    values, counts = backend.xp.unique(x, return_counts=True)
    return backend.to_host(values), backend.to_host(counts)


def _frequent(backend: Backend, counted: Counted, least: int, turn: int, n_turns: int) -> Array:
    """Return the values of one batch that occur in at least `least` rows."""
    values, counts = counted
    bits = values.view(f"uint{8 * values.itemsize}").astype(np.uint64)
    hashed = mix((bits ^ bits >> np.uint64(32)).astype(np.uint32))
    candidates: Array = values[(counts >= least) & (hashed % np.uint32(n_turns) == turn)]
    return candidates


def _counts_of(backend: Backend, counted: Counted, asked: Array) -> Array:
    """Return the counts of the given values."""
    values, counts = counted
    if not len(values):
        return np.zeros(len(asked), np.int64)
    at = np.minimum(np.searchsorted(values, asked), len(values) - 1)
    return np.where(values[at] == asked, counts[at], 0)

"""The most frequent value of a column of a partitioned table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.weighted_quantiles import WEIGHT_RESOLUTION
from gpupipe.features.statistics.numbers import count_values, find_mode
from gpupipe.partitions.number_columns import NumberColumn, read_columns
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import ResultHandle
from gpupipe.table.blocks import Table
from gpupipe.typing import Array
from gpupipe_kernels.formulas.hashes import mix

Counted = tuple[Array, Array]  # distinct sorted values of some rows, and their counts or weight sums

MOST_SENT = 2**20  # values gathered by the driver at a time


def mode(table: PartitionedTable, column: NumberColumn, weights: Sequence[ResultHandle[Array]] | None = None) -> float:
    """Return the most frequent value of a column, the smallest of several; 0 for an empty column.

    Each worker counts its own values and keeps the counts. Let m be the largest count in a single partition. A value
    with at least m rows in total has at least m / n_partitions rows in some partition; other values are not sent. Many
    values are gathered in batches by a hash, so that all counts of a value are in one batch. Sums of weights replace
    the counts if `weights` has the weights of each partition.
    """
    counted = table.map(_counted, column, each=[] if weights is None else [weights], label="values")
    extents = counted.compute(lambda _, own: (len(own[0]), own[1].max(initial=0)), label="values")
    sizes, highest = zip(*extents, strict=True)
    least = max(highest) / len(extents) * (1 - WEIGHT_RESOLUTION)
    n_turns = -(-sum(sizes) // MOST_SENT)
    found = []
    for turn in range(n_turns):
        values = np.unique(np.concatenate(counted.compute(_frequent, least, turn, n_turns, label="values")))
        counts = np.add.reduce(counted.compute(_counts_of, values, label="counts of values"))
        found.append(find_mode(values, counts))
    return find_mode(*np.array(found).reshape(-1, 2).T)[0]


def _counted(backend: Backend, table: Table, column: NumberColumn, weights: Array | None = None) -> Counted:
    (x,) = read_columns(backend, table, [column])
    values, counts = count_values(x + 0.0, weights, backend.xp)  # of the two zeros, the positive one
    return backend.to_host(values), backend.to_host(counts)


def _frequent(backend: Backend, counted: Counted, least: float, turn: int, n_turns: int) -> Array:
    """Return the values of one batch whose count is at least `least`."""
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

"""Exact selection of values by rank over all partitions, without moving the values.

Each worker sorts its own values as unsigned integers of the same order. The driver finds the integer of a rank from its
first bits on: the workers count how many integers are below each value of the next bits. For quantiles by weight, they
add up the weights of these integers instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.weighted_quantiles import WeightScale
from gpupipe.features.statistics.quantiles import FEW_VALUES
from gpupipe.partitions.collection import PartitionedValues
from gpupipe.partitions.number_columns import NumberColumn, read_columns
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import ResultHandle
from gpupipe.table.blocks import Table
from gpupipe.typing import Array

SortedKeys = tuple[Array, Array | None]  # keys, and with weights their sum before each key and at the end

BITS_A_PASS = 12
BITS_OF_MANY = 8  # for more than FEW_RANKS prefixes, which would have too many edges
FEW_RANKS = 16


def select_ranks(table: PartitionedTable, column: NumberColumn, ranks: Sequence[int], dtype: str) -> dict[int, float]:
    """Return the non-null values of a column at the given ranks, counted from 0; `dtype` is "float32" or "float64"."""
    keys = table.map(sort_keys, column, label="ordered values")
    if table.n_rows <= FEW_VALUES:
        together = np.sort(np.concatenate([own for own, _ in table.workers.gather(keys.partitions)]))
        return {rank: value_of(int(together[rank]), dtype) for rank in ranks}
    return {rank: value_of(key, dtype) for rank, key in _search(keys, ranks, dtype).items()}


def select_quantiles_by_weight(
    table: PartitionedTable,
    column: NumberColumn,
    weights: Sequence[ResultHandle[Array]],
    scale: WeightScale,
    shares: Sequence[float],
    dtype: str,
) -> list[float]:
    """Return the `gpupipe.backends.weighted_quantiles.weighted_quantiles` of a column.

    `weights` are those of the rows of each partition, and `scale` that of all weights. `dtype`, that of the column, is
    "float32" or "float64".
    """
    keys = table.map(sort_keys, column, scale, each=[weights], label="ordered values")
    total = sum(keys.compute(lambda _, own: int(own[1][-1]), label="sums of weights"))
    if not total or not shares:
        return [0.0 for _ in shares]
    positions = scale.positions(total, shares)
    found = _search(keys, sorted({p.low for p in positions} | {p.high for p in positions}), dtype)
    following = np.array([found[p.low] + 1 for p in positions], f"uint{8 * np.dtype(dtype).itemsize}")
    (reached,) = _counts(keys, [following])
    values = {end: value_of(key, dtype) for end, key in found.items()}
    return [p.interpolate(values[p.low], values[p.high], int(n)) for p, n in zip(positions, reached, strict=True)]


def _search(keys: PartitionedValues[SortedKeys], ranks: Sequence[int], dtype: str) -> dict[int, int]:
    """Return for each rank the smallest key up to which the number of values, or their weight, exceeds it."""
    n_bits = 8 * np.dtype(dtype).itemsize
    # The known leading bits of each rank's key, and the number of unknown bits.
    known, left = dict.fromkeys(ranks, 0), n_bits
    while left:
        prefixes = sorted(set(known.values()))
        step = min(left, BITS_A_PASS if len(prefixes) <= FEW_RANKS else BITS_OF_MANY)
        left -= step
        edges = {
            prefix: np.uint64(prefix) + (np.arange(1 << step, dtype=np.uint64) << np.uint64(left))
            for prefix in prefixes
        }
        counts = _counts(keys, [edges[prefix].astype(f"uint{n_bits}") for prefix in prefixes])
        found = dict(zip(prefixes, counts, strict=True))
        for rank, prefix in known.items():
            at = int(np.searchsorted(found[prefix], rank, side="right")) - 1
            known[rank] = int(edges[prefix][at])
    return known


def _counts(keys: PartitionedValues[SortedKeys], edges: Sequence[Array]) -> Sequence[Array]:
    """Return the number of keys, or their weight, over all partitions, below each edge of several lists."""
    together = np.concatenate(edges)
    found = keys.compute(_count_below, together, label="ranks")
    return np.split(np.add.reduce(found), np.cumsum([len(part) for part in edges])[:-1])


def _count_below(backend: Backend, own: SortedKeys, edges: Array) -> Array:
    keys, reached = own
    places = np.searchsorted(keys, edges)
    return places if reached is None else reached[places]


def sort_keys(
    backend: Backend,
    table: Table,
    column: NumberColumn,
    scale: WeightScale | None = None,
    weights: Array | None = None,
) -> SortedKeys:
    """Return the non-null values of a column as order-preserving integers, sorted, on the host, and their weights."""
    (x,) = read_columns(backend, table, [column])
    known = ~backend.xp.isnan(x)
    keys = keys_of(backend.to_host(x[known]))
    if weights is None or scale is None:
        return np.sort(keys), None
    order = np.argsort(keys)
    counts = backend.to_host(scale.count(weights[known], backend))[order]
    return keys[order], np.append(0, np.cumsum(counts))


def keys_of(x: Array) -> Array:
    """Return floats without NaN as order-preserving unsigned integers of the same width."""
    bits = (x + 0.0).view(f"uint{8 * x.itemsize}")  # of the two zeros, the positive one
    sign = bits.dtype.type(1 << (8 * x.itemsize - 1))
    return np.where(bits & sign, ~bits, bits | sign)


def value_of(key: int, dtype: str) -> float:
    """Return the number whose key is `key`: the inverse of `keys_of`."""
    n_bits = 8 * np.dtype(dtype).itemsize
    sign = 1 << (n_bits - 1)
    bits = key ^ sign if key & sign else key ^ (2 * sign - 1)
    return float(np.array([bits], f"uint{n_bits}").view(dtype)[0])

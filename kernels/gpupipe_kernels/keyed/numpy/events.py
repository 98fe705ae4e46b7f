"""Preparation of events in NumPy, independent of queries: flags, decayed sums, and trees of partial results.

All queries ascend a tree at once. A tree of n leaves is an array of 2 n nodes: leaf i is node ``n + i``, and node k
combines ``2 k`` and ``2 k + 1``. A range needs at most two nodes per level (Al.Cash, "Efficient and easy segment
trees", 2015). Nothing is subtracted, so an infinite or large value outside a range does not affect its result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.keyed.engine import KeyedEvents
from gpupipe_kernels.typing import Array

Node = tuple[Array, ...]
Combine = Callable[[Node, Node], Node]

NO_MOMENTS = (0.0, 0.0, 0.0)
NOISE = 2.0**-90  # a remainder of less than this share of a sum of squares is rounding error
LARGEST = 1e100  # larger values count as infinite in sums: their squares could overflow, and float32 ends far below


def number_of_keys(key: Array, n_keys: int | None) -> int:
    """Return the number of keys: `n_keys`, or one more than the largest code.

    Raise ValueError if a code is not below `n_keys`.
    """
    needed = int(key.max(initial=-1)) + 1
    if n_keys is not None and n_keys < needed:
        raise ValueError(f"expected key codes below {n_keys}, got {needed - 1}")
    return needed if n_keys is None else n_keys


def first_of_keys(start: Array) -> npt.NDArray[np.bool_]:
    """Return flags of the first event of each key."""
    heads = np.zeros(start[-1], bool)
    heads[start[:-1][start[:-1] < start[1:]]] = True
    return heads


def least_tree(values: Array, sign: float) -> Node:
    """Return the minimum tree of `sign` times the values, in float32, because rounding preserves the order."""
    with np.errstate(over="ignore"):
        return grow((np.multiply(values, sign, out=np.empty(len(values), np.float32), casting="same_kind"),), least_of)


def moments_tree(events: KeyedEvents) -> Node:
    """Return the tree of count, sum and squared deviations; NaN for infinite values."""
    values: Array = events.values
    x: Array = np.where(np.abs(values) > LARGEST, np.copysign(np.inf, values), values)
    return grow((np.ones(len(x)), x, np.where(np.isfinite(x), 0.0, np.nan)), moments_of)


def is_first(events: KeyedEvents) -> Array:
    """Return flags of the first occurrences of each code within its key."""
    assert events.values is not None
    key = np.repeat(np.arange(len(events.start) - 1), np.diff(events.start))
    order = np.lexsort((events.values, key))
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(key[order]) != 0) | (np.diff(events.values[order]) != 0)
    made = np.zeros(len(order), bool)
    made[order] = is_new
    return made


def decayed_sums(values: Array, events: KeyedEvents, rate: float) -> Array:
    """Return the decayed sum up to each event, by doubling: after step d an event has the sum of 2 d events.

    After W. D. Hillis and G. L. Steele, "Data parallel algorithms", Communications of the ACM 29 (1986) 1170.
    """
    time, place = events.time.astype(np.float64), np.arange(len(values))
    begin = np.repeat(events.start[:-1], np.diff(events.start))
    sums, d = values.copy(), 1
    while d < max(len(values), 1) and (place - d >= begin).any():
        at = np.flatnonzero(place - d >= begin)
        sums[at] = sums[at] + sums[at - d] * 2.0 ** (-(time[at] - time[at - d]) * rate)
        d *= 2
    return sums


def moments_of(left: Node, right: Node) -> Node:
    """Combine (count, sum, sum of squared deviations), after T. F. Chan, G. H. Golub and R. J. LeVeque, "Updating
    formulae and a pairwise algorithm for computing sample variances" (1979)."""
    (n, total, squares), (m, more, more_squares) = left, right
    apart = more / np.maximum(m, 1.0) - total / np.maximum(n, 1.0)
    both = n + m
    between = np.where((n > 0) & (m > 0), apart * apart * n * m / np.maximum(both, 1.0), 0.0)
    return both, total + more, squares + more_squares + between


def least_of(left: Node, right: Node) -> Node:
    """Combine (least value,)."""
    return (np.minimum(left[0], right[0]),)


def grow(leaves: Node, combine: Combine) -> Node:
    """Return the nodes of a tree, arrays of length 2 n; node 0 is unused."""
    n = len(leaves[0])
    tree = tuple(np.zeros(2 * n, leaf.dtype) for leaf in leaves)
    for part, leaf in zip(tree, leaves, strict=True):
        part[n:] = leaf
    end = n
    while end > 1:
        first = (end + 1) // 2  # the children of first:end are at or after `end`, so they are done
        left = tuple(part[2 * first : 2 * end : 2] for part in tree)
        right = tuple(part[2 * first + 1 : 2 * end : 2] for part in tree)
        for part, made in zip(tree, combine(left, right), strict=True):
            part[first:end] = made
        end = first
    return tree


def climb(tree: Node, low: Array, high: Array, combine: Combine, nothing: tuple[float, ...]) -> Node:
    """Return the combination of the leaves ``low:high`` for each query; `nothing` for an empty range."""
    n = len(tree[0]) // 2
    found = tuple(np.full(len(low), value) for value in nothing)
    low, high = low.astype(np.int64) + n, high.astype(np.int64) + n
    while (low < high).any():
        for node, is_part in ((low, (low < high) & (low % 2 == 1)), (high - 1, (low < high) & (high % 2 == 1))):
            at = np.flatnonzero(is_part)
            merged = combine(tuple(part[at] for part in found), tuple(part[node[at]] for part in tree))
            for part, made in zip(found, merged, strict=True):
                part[at] = made
        low, high = (low + 1) // 2, high // 2
    return found

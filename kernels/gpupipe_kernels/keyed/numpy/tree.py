"""Aggregates over ranges of positions in NumPy: a tree of partial results, climbed by all queries at once.

The tree of n leaves is an array of 2 n nodes: leaf i is node ``n + i``, and node k combines ``2 k`` and ``2 k + 1``.
A range takes at most two nodes of each level (Al.Cash, "Efficient and easy segment trees", 2015). Nothing is
subtracted, so an infinity or a large value outside of a range has no part in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpupipe_kernels.typing import Array

Node = tuple[Array, ...]
Combine = Callable[[Node, Node], Node]

NO_MOMENTS = (0.0, 0.0, 0.0)


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
    """Return the nodes of a tree, arrays of 2 n; node 0 is not used."""
    n = len(leaves[0])
    tree = tuple(np.zeros(2 * n, leaf.dtype) for leaf in leaves)
    for part, leaf in zip(tree, leaves, strict=True):
        part[n:] = leaf
    end = n
    while end > 1:
        first = (end + 1) // 2  # the children of first:end lie at or behind `end`, so they are done
        left = tuple(part[2 * first : 2 * end : 2] for part in tree)
        right = tuple(part[2 * first + 1 : 2 * end : 2] for part in tree)
        for part, made in zip(tree, combine(left, right), strict=True):
            part[first:end] = made
        end = first
    return tree


def climb(tree: Node, low: Array, high: Array, combine: Combine, nothing: tuple[float, ...]) -> Node:
    """Return what the leaves ``low:high`` come to for each query, `nothing` for none."""
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

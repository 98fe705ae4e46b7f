"""Overlaps of the levels of a column with the classes of the target."""

from __future__ import annotations

import numpy as np

from gpupipe.starter.power import level_codes
from gpupipe.typing import Array

MIN_ROWS, MIN_LEVEL_ROWS = 60, 5
MIN_SHARE = 0.9  # of the rows are in levels of enough rows
MAX_SLIPS = 0.01  # of the rows
MIN_LEVELS, MAX_LEVELS = 3, 50
MIN_EMPTY = 20.0  # rows that chance would have put where a level and a class never meet


def shared_bands(x: Array, y: Array) -> int:
    """Return the number of levels if these and the classes overlap as two sets of bands of one quantity; else 0.

    A band meets only neighboring bands of the other set: the graph of levels and classes that share rows has no cycle,
    where that of two measurements, related or not, is nearly complete.

    Parameters
    ----------
    x : array of float64, shape (n_rows,)
        Level codes; NaN for null.
    y : array, shape (n_rows,)
        Class codes.
    """
    overlaps = _overlaps(x, y)
    if overlaps is None:
        return 0
    meet = overlaps > 0
    expected = np.outer(overlaps.sum(axis=1), overlaps.sum(axis=0)) / overlaps.sum()
    return len(overlaps) if _has_no_cycle(meet) and expected[~meet].sum() >= MIN_EMPTY else 0


def _overlaps(x: Array, y: Array) -> Array | None:
    """Return the rows of each level in each class, without slips; None if levels are small, few or many."""
    filled = ~np.isnan(x)
    if filled.sum() < MIN_ROWS:
        return None
    codes, classes = level_codes(x[filled]), level_codes(y[filled])
    shape = int(codes.max()) + 1, int(classes.max()) + 1
    overlaps = np.bincount(codes * shape[1] + classes, minlength=shape[0] * shape[1]).reshape(shape)
    overlaps = np.asarray(overlaps[overlaps.sum(axis=1) >= MIN_LEVEL_ROWS])
    if not MIN_LEVELS <= len(overlaps) <= MAX_LEVELS or overlaps.sum() < MIN_SHARE * len(codes):
        return None
    order = np.argsort(overlaps, axis=None)
    slips = order[np.cumsum(overlaps.ravel()[order]) <= MAX_SLIPS * overlaps.sum()]
    overlaps.ravel()[slips] = 0
    return overlaps


def _has_no_cycle(meet: Array) -> bool:
    """Return whether a bipartite graph, given as a matrix of bool, is a forest: edges are vertices less components."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n_rows, n_columns = meet.shape
    rows, columns = np.nonzero(meet)
    graph = coo_matrix((np.ones(len(rows)), (rows, n_rows + columns)), shape=(n_rows + n_columns,) * 2)
    n_components = connected_components(graph, directed=False)[0]
    return bool(len(rows) == n_rows + n_columns - n_components)

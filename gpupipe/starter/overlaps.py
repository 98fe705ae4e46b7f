"""Overlap of the levels of a column with the target classes."""

from __future__ import annotations

import numpy as np

from gpupipe.starter.power import level_codes
from gpupipe.typing import Array

MIN_ROWS, MIN_LEVEL_ROWS = 60, 5
MIN_SHARE = 0.9  # of the rows, in levels with at least MIN_LEVEL_ROWS
MAX_ERRORS = 0.01  # of the rows
MIN_LEVELS, MAX_LEVELS = 3, 50
MIN_EMPTY = 20.0  # rows expected by chance in the empty pairs of level and class


def shared_bands(x: Array, y: Array) -> int:
    """Return the number of levels if levels and classes are two sets of bands of one quantity; else 0.

    A band overlaps only neighboring bands of the other set, so the graph of levels and classes with common rows has no
    cycle. For two separate measurements, related or not, the graph is nearly complete.

    - `x` (array of float64, shape (n_rows,)): level codes; NaN for null.
    - `y` (array, shape (n_rows,)): class codes.
    """
    overlaps = _overlaps(x, y)
    if overlaps is None:
        return 0
    has_rows = overlaps > 0
    expected = np.outer(overlaps.sum(axis=1), overlaps.sum(axis=0)) / overlaps.sum()
    return len(overlaps) if _has_no_cycle(has_rows) and expected[~has_rows].sum() >= MIN_EMPTY else 0


def _overlaps(x: Array, y: Array) -> Array | None:
    """Return the row counts per level and class, without rare errors; None if levels are small, too few or too many."""
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
    errors = order[np.cumsum(overlaps.ravel()[order]) <= MAX_ERRORS * overlaps.sum()]
    overlaps.ravel()[errors] = 0
    return overlaps


def _has_no_cycle(edges: Array) -> bool:
    """Return whether a bipartite graph, given as a boolean matrix, is a forest: n_edges = n_vertices - n_components."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n_rows, n_columns = edges.shape
    rows, columns = np.nonzero(edges)
    graph = coo_matrix((np.ones(len(rows)), (rows, n_rows + columns)), shape=(n_rows + n_columns,) * 2)
    n_components = connected_components(graph, directed=False)[0]
    return bool(len(rows) == n_rows + n_columns - n_components)

"""Evidence that a column restates the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpupipe.starter.power import level_codes
from gpupipe.starter.sample import FOLDS
from gpupipe.typing import Array

MIN_LEVEL_ROWS = 5
MIN_SHARE = 0.9  # of the rows, in levels with at least MIN_LEVEL_ROWS
MAX_ERRORS = 0.01  # of the rows
MIN_LEVELS, MAX_LEVELS = 3, 50
MIN_EMPTY = 20.0  # rows expected by chance in the empty pairs of level and class

MIN_ROWS = 60  # with fewer, a good column looks like a leak
MIN_OTHERS = 20  # rows outside the most frequent class, required as evidence
FEW_ERRORS, MORE_ERRORS = 0.01, 0.05  # of those rows; with more, the column must add to a model of the others
MIN_GAIN_OF_TEXT = 0.02  # of the target's variance; for texts with three or more levels, which are rarely measurements


@dataclass(frozen=True)
class Suspicion:
    """Evidence against a column, and the minimum gain over a model of the other columns to drop it."""

    evidence: str
    least_gain: float = -np.inf


Suspicions = dict[str, Suspicion]


@dataclass(frozen=True)
class Determination:
    """Accuracy with which one column's levels determine another's, on held-out rows with known levels."""

    n_rows: int
    n_errors: int
    n_others: int  # rows outside the most frequent outcome: the errors without the column
    min_others: int = MIN_OTHERS

    @property
    def is_exact(self) -> bool:
        """True if errors are rare enough to be data errors."""
        return self.n_others >= self.min_others and self.n_errors <= FEW_ERRORS * self.n_others

    @property
    def is_near(self) -> bool:
        """True if errors are rare."""
        return self.n_others >= self.min_others and self.n_errors <= MORE_ERRORS * self.n_others


def determination(codes: Array, outcomes: Array, fold: Array) -> Determination:
    """Return how accurately `codes` determine `outcomes`, both codes from 0; all zeros if most levels are unique."""
    n_codes, n_outcomes = int(codes.max(initial=0)) + 1, int(outcomes.max(initial=0)) + 1
    cells = codes * n_outcomes + outcomes
    everything = np.bincount(cells, minlength=n_codes * n_outcomes).reshape(n_codes, n_outcomes)
    n_rows = n_errors = 0
    seen_outcomes = np.zeros(n_outcomes, np.int64)
    for k in range(FOLDS):
        test = fold == k
        held_out = np.bincount(cells[test], minlength=n_codes * n_outcomes).reshape(n_codes, n_outcomes)
        learned = everything - held_out
        seen = learned.sum(axis=1) > 0
        n_rows += int(held_out[seen].sum())
        right = held_out[seen, learned[seen].argmax(axis=1)]
        n_errors += int(held_out[seen].sum() - right.sum())
        seen_outcomes += held_out[seen].sum(axis=0)
    if n_rows < len(codes) / 2:
        return Determination(0, 0, 0)
    return Determination(n_rows, n_errors, n_rows - int(seen_outcomes.max()))


def grouped(keys: Mapping[str, bytes]) -> list[list[str]]:
    """Return the names grouped by key, in order of first appearance."""
    groups: dict[bytes, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    return list(groups.values())


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

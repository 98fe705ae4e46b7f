"""Shapley values and interactions of trees, by blocks of rows."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from gpupipe_kernels.launch import read_only
from gpupipe_kernels.shapley.loops import N_NUMBERS, add_interactions, add_values
from gpupipe_kernels.shapley.steps import TreeSteps

if TYPE_CHECKING:
    from gpupipe_kernels.typing import HostArray

LANES = 32  # rows that a loop computes at once: some vectors of any processor
BLOCK_BYTES = 1 << 19  # of numbers and values of the rows that are computed together; they stay in the cache


class TreeShapley:
    """Shapley values of the trees of a model.

    Attributes
    ----------
    row_work : float
        Number of products for the values of a row: over all nodes, the points of the quadrature times the outputs.
    """

    def __init__(self, trees: TreeSteps) -> None:
        self.trees = trees
        packed = trees.packed
        orders = np.maximum(1, -(-trees.n_players // 2))
        points, weights = quadratures(int(orders.max(initial=1)))
        nodes = packed.nodes, packed.trees, packed.words, packed.values
        self._arrays = tuple(map(read_only, (*nodes, trees.steps, trees.starts, orders, points, weights)))
        self.row_work = float(np.diff(trees.starts) @ orders * packed.values.shape[1])

    @property
    def base(self) -> HostArray:
        """The expected sum of the leaves, float64, shape (n_outputs,)."""
        return self.trees.base

    def values(self, X: HostArray) -> HostArray:
        """Return the Shapley values of rows, float64, shape (n, n_outputs, n_players).

        Parameters
        ----------
        X : array of float32, shape (n, n_columns)
        """
        n_players, n_outputs = self.trees.total_players, len(self.base)
        found = np.empty((len(X), n_outputs, n_players))
        scratch, lanes, step = self._scratch(len(X), n_outputs * n_players)
        for start in range(0, len(X), step):
            rows = np.ascontiguousarray(X[start : start + step], np.float32)
            phi = np.zeros((-(-len(rows) // lanes), n_outputs, n_players, lanes))
            add_values(rows, *self._arrays, *scratch, phi)
            found[start : start + step] = np.moveaxis(phi, 3, 1).reshape(-1, n_outputs, n_players)[: len(rows)]
        return found

    def interactions(self, X: HostArray) -> HostArray:
        """Return the Shapley interactions of rows, float64, shape (n, n_outputs, n_players, n_players).

        Symmetric. The interaction of two players is divided equally between ``[i, j]`` and ``[j, i]``, and ``[i, i]``
        is what remains of the Shapley value of i, so that the sum of a row of the matrix is a Shapley value.

        Parameters
        ----------
        X : array of float32, shape (n, n_columns)
        """
        n_players, n_outputs = self.trees.total_players, len(self.base)
        found = np.empty((len(X), n_outputs, n_players, n_players))
        scratch, lanes, step = self._scratch(len(X), n_outputs * n_players * n_players)
        replaced = np.zeros(len(scratch[-1]), np.int64)
        for start in range(0, len(X), step):
            rows = np.ascontiguousarray(X[start : start + step], np.float32)
            phi = np.zeros((-(-len(rows) // lanes), n_outputs, n_players, n_players, lanes))
            add_interactions(rows, *self._arrays, *scratch, replaced, phi)
            pairs = np.moveaxis(phi, 4, 1).reshape(-1, n_outputs, n_players, n_players)[: len(rows)]
            found[start : start + step] = pairs + np.swapaxes(pairs, 2, 3)
        diagonal = np.arange(n_players)
        found[:, :, diagonal, diagonal] = self.values(X) - found.sum(axis=3)
        return found

    def _scratch(self, n_rows: int, row_numbers: int) -> tuple[tuple[HostArray, ...], int, int]:
        """Return memory for the loops, the number of lanes, and that of rows in a block.

        Each row has `row_numbers` results.
        """
        packed = self.trees.packed
        deepest, m = int(packed.trees["depth"].max(initial=0)) + 1, packed.values.shape[1]
        n_points, lanes = self._arrays[-1].shape[1], max(1, min(LANES, n_rows))
        n_groups = max(1, BLOCK_BYTES // (lanes * (4 * packed.width + 8 * row_numbers)))
        memory = (
            np.empty((n_groups, lanes, packed.width), np.int32),  # numbers that nodes compare
            np.empty((deepest, lanes), np.int32),  # the side of each row at each node of a path
            np.ones((deepest, lanes)),  # whether each row follows the splits of a player; 1 at roots, which have none
            np.ones((deepest, n_points, lanes)),  # products of factors; 1 at roots
            np.zeros((deepest, m, n_points, lanes)),  # sums over the leaves below
            np.zeros((deepest, n_points, N_NUMBERS)),  # numbers of edges
            np.zeros(deepest, np.int64),  # the steps of a path
        )
        return memory, lanes, n_groups * lanes


@cache
def quadratures(most: int) -> tuple[HostArray, HostArray]:
    """Return the points and weights of Gauss-Legendre quadrature on [0, 1], float64, shape (most + 1, most).

    Row n has those of n points.
    """
    points, weights = np.zeros((most + 1, most)), np.zeros((most + 1, most))
    for n in range(1, most + 1):
        x, w = np.polynomial.legendre.leggauss(n)
        points[n, :n], weights[n, :n] = (x + 1.0) / 2.0, w / 2.0
    return points, weights

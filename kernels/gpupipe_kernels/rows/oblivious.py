"""Sums of leaves of oblivious trees: all nodes of a level share one test, so a leaf is a number of test outcomes.

The number of a leaf has the outcome of the tree's first test as its lowest bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gpupipe_kernels.typing import HostArray

BLOCK_CELLS = 1 << 21  # of outcomes and leaf numbers: 2 to 16 MiB


class ObliviousTrees(NamedTuple):
    """The trees of a model.

    Attributes
    ----------
    depth : array of int32, shape (n_trees,)
    test : array of int32, shape (depth.sum(),)
        Tests of each tree, as columns of the outcomes.
    leaf : array of float64, shape ((2**depth).sum(), n_outputs)
        Values of the leaves of each tree.
    """

    depth: HostArray
    test: HostArray
    leaf: HostArray

    @property
    def first_leaf(self) -> HostArray:
        """Position of the first leaf of each tree: int64, shape (n_trees,)."""
        sizes = np.int64(1) << self.depth.astype(np.int64)
        first: HostArray = np.cumsum(sizes) - sizes
        return first


class NumpyObliviousTrees:
    """Trees whose leaves are summed in NumPy.

    Parameters
    ----------
    n_tests : int
        Number of columns of the outcomes.
    """

    def __init__(self, trees: ObliviousTrees, n_tests: int) -> None:
        self._first, self._leaf = trees.first_leaf, trees.leaf
        n_levels = int(trees.depth.max(initial=0))
        self._tests = np.full((n_levels, len(trees.depth)), n_tests, np.intp)  # a test that no row passes
        is_level = np.arange(n_levels) < trees.depth[:, None]
        self._tests.T[is_level] = trees.test

    def sums(self, outcomes: HostArray) -> HostArray:
        """Return the sums of leaves in the order of the trees, float64, shape (n, n_outputs).

        Parameters
        ----------
        outcomes : array of bool, shape (n, n_tests + 1)
            Whether each row passes each test; the last column is False.
        """
        leaf = np.empty((len(outcomes), len(self._first)), np.intp)
        leaf[:] = self._first
        for level, tests in enumerate(self._tests):
            leaf += outcomes[:, tests].astype(np.intp) << level
        n_outputs = self._leaf.shape[1]
        terms = np.zeros((len(outcomes), len(self._first) + 1, n_outputs))
        terms[:, 1:] = self._leaf[leaf]
        sums: HostArray = np.add.accumulate(terms, axis=1)[:, -1]
        return sums

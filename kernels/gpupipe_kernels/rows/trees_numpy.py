"""Walk of packed trees in NumPy: all trees of a row at the same time, level by level.

The outcome of every categorical split is computed before the walk and appended to the table of the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpupipe_kernels.rows.trees import HIGHEST, LOWEST, MAX_CATEGORY, WORD, PackedTrees, ordered_codes

if TYPE_CHECKING:
    from gpupipe_kernels.typing import HostArray

BLOCK_CELLS = 1 << 21  # of the table and the walk: 8 to 16 MiB


class NumpyTrees:
    """Trees that are walked in NumPy."""

    def __init__(self, packed: PackedTrees) -> None:
        nodes, n_columns = packed.nodes, packed.n_columns
        is_category = nodes["words"] > 0
        self._n_columns, self._words = n_columns, packed.words
        self._depth, self._roots = int(packed.trees["depth"].max(initial=0)), packed.trees["root"].astype(np.intp)
        splits = nodes[is_category]
        self._category_column = splits["column"].astype(np.intp) - 1 - 2 * n_columns
        self._first_word, self._last_word = splits["words"].astype(np.int64), splits["code"].astype(np.int64)
        self._width = 1 + 2 * n_columns + len(splits)
        # An outcome is 1 or 0, for the right or the left child.
        self._child, self._column = nodes["child"].astype(np.intp), nodes["column"].astype(np.intp)
        self._column[is_category] = np.arange(self._width - len(splits), self._width)
        self._code = np.where(is_category, np.int32(0), nodes["code"])
        self._leaf = nodes["code"].astype(np.intp)

    def leaves(self, X: HostArray) -> HostArray:
        """Return the position of each row's leaf values.

        Parameters
        ----------
        X : array of float32, shape (n, n_columns)

        Returns
        -------
        array of int, shape (n, n_trees)
        """
        step = max(1, BLOCK_CELLS // max(self._width, len(self._roots)))
        if len(X) <= step:
            return self._leaves(X)
        return np.concatenate([self._leaves(X[start : start + step]) for start in range(0, len(X), step)])

    def _leaves(self, X: HostArray) -> HostArray:
        table = self._table(np.ascontiguousarray(X))
        offsets = np.arange(0, table.size, self._width)[:, None] if len(X) != 1 else 0
        table = table.reshape(-1)
        at = np.empty((len(X), len(self._roots)), np.intp)
        at[:] = self._roots
        for _ in range(self._depth):
            is_right = table.take(self._column.take(at) + offsets) > self._code.take(at)
            at = self._child.take(at)
            at += is_right
        leaf: HostArray = self._leaf.take(at)
        return leaf

    def _table(self, X: HostArray) -> HostArray:
        d = self._n_columns
        table = np.empty((len(X), self._width), np.int32)
        table[:, 0] = LOWEST
        low, high = table[:, 1 : 1 + d], table[:, 1 + d : 1 + 2 * d]
        low[:] = high[:] = ordered_codes(X)
        is_missing = X != X
        if is_missing.any():
            np.copyto(low, LOWEST, where=is_missing)
            np.copyto(high, HIGHEST, where=is_missing)
        if len(self._first_word):
            table[:, 1 + 2 * d :] = self._is_right(X, is_missing)
        return table

    def _is_right(self, X: HostArray, is_missing: HostArray) -> HostArray:
        """Return 1 for each categorical split that sends a row to the right, else 0; int, shape (n, n_splits)."""
        is_known = (X >= 0) & (X < MAX_CATEGORY)
        category = np.where(is_known, X, 0).astype(np.int64)
        if self._words[0]:
            is_known &= category == X
        word = np.where(is_known, category // WORD + 1, np.where(is_missing, 0, MAX_CATEGORY))
        word, bit = word[:, self._category_column], (category % WORD)[:, self._category_column]
        found = self._words.take(self._first_word + np.minimum(word, self._last_word))
        right: HostArray = (found >> bit) & 1
        return right


class OrderedSum:
    """Sums of leaf values in the order of the trees, as a loop would add them.

    Parameters
    ----------
    outputs : array of int, shape (n_trees,)
        Output to which each tree adds.
    start : array of float32 or float64, shape (n_outputs,)
        First term of each sum; the sums have its dtype.
    """

    def __init__(self, outputs: HostArray, start: HostArray) -> None:
        self._start = start
        n_each = np.bincount(outputs, minlength=len(start))
        self._trees = np.zeros((len(start), n_each.max(initial=0)), np.intp)
        self._padding = np.arange(self._trees.shape[1]) >= n_each[:, None]
        self._trees[~self._padding] = np.argsort(outputs, kind="stable")
        self._is_padded = bool(self._padding.any())

    def of(self, values: HostArray) -> HostArray:
        """Return the sums, shape (n, n_outputs), of the leaf values of each tree, shape (n, n_trees)."""
        terms = np.empty((len(values), *self._trees.shape[:1], self._trees.shape[1] + 1), self._start.dtype)
        terms[..., 0] = self._start
        terms[..., 1:] = values[:, self._trees]
        if self._is_padded:
            terms[:, :, 1:][:, self._padding] = -0.0  # the only number that changes no sum, not even -0.0
        sums: HostArray = np.add.accumulate(terms, axis=-1)[..., -1]
        return sums

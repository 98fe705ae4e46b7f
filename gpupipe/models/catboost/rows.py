"""Sums of CatBoost's oblivious trees without CatBoost: one row or many, in NumPy or compiled.

Categories are hashed as CatBoost does: CityHash64 (version 1.0, by Geoff Pike and Jyrki Alakuijala) of the decimal
digits of a code, lower 32 bits. Source: ``util/digest/city.cpp`` and ``catboost/libs/model`` of CatBoost 1.2.10.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gpupipe_kernels.rows.city_hash import COMBINE, K2, K3, MIX

if TYPE_CHECKING:
    from gpupipe.models.catboost.trees import CatBoostTrees
    from gpupipe.typing import HostArray
    from gpupipe_kernels.engines import HostEngine

_MASK = (1 << 64) - 1
BLOCK_CELLS = 1 << 22  # of outcomes


def tree_sums(trees: CatBoostTrees, engine: HostEngine) -> Callable[[Any], HostArray]:
    """Return the function from rows, float32, shape (n, d), to CatBoost's raw values, float64, shape (n, n_outputs)."""
    import numpy as np

    is_compiled = engine == "numba"
    add = _compiled_leaves(trees) if is_compiled else _numpy_leaves(trees)
    outcomes = _compiled_outcomes(trees) if is_compiled else _Tests(trees).outcomes
    n_cells = trees.n_tests + 4 * len(trees.statistic_table) + len(trees.tree_depth) * trees.leaf.shape[1] * 8
    step = max(1, BLOCK_CELLS // (n_cells + 1))

    def sums(X: Any) -> HostArray:
        rows = np.ascontiguousarray(X)
        blocks = [add(outcomes(rows[start : start + step])) for start in range(0, max(1, len(rows)), step)]
        total = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        total += trees.bias
        return total

    return sums


def test_outcomes(trees: CatBoostTrees) -> Callable[[HostArray], HostArray]:
    """Return the function from rows to the outcome of each test: bool, shape (n, n_tests)."""
    outcomes = _Tests(trees).outcomes
    return lambda X: outcomes(X)[:, :-1]


def _numpy_leaves(trees: CatBoostTrees) -> Callable[[HostArray], HostArray]:
    from gpupipe_kernels.rows.oblivious import NumpyObliviousTrees, ObliviousTrees

    packed = ObliviousTrees(trees.tree_depth, trees.tree_test, trees.leaf)
    return NumpyObliviousTrees(packed, trees.n_tests).sums


def _compiled_leaves(trees: CatBoostTrees) -> Callable[[HostArray], HostArray]:
    import numpy as np

    from gpupipe_kernels.launch import read_only
    from gpupipe_kernels.rows.oblivious_numba import add_leaves

    depth, test, leaf = map(read_only, (trees.tree_depth, trees.tree_test, trees.leaf))

    def add(outcomes: HostArray) -> HostArray:
        out = np.zeros((len(outcomes), leaf.shape[1]))
        add_leaves(outcomes, depth, test, leaf, out)
        return out

    return add


def _compiled_outcomes(trees: CatBoostTrees) -> Callable[[HostArray], HostArray]:
    import numpy as np

    from gpupipe_kernels.launch import read_only
    from gpupipe_kernels.rows.oblivious_numba import TEST_DTYPES, ObliviousTests, fill_outcomes

    columns = np.unique(np.concatenate([trees.category_column, trees.part[~trees.part_is_test]]))
    place = np.where(trees.part_is_test, trees.part, np.searchsorted(columns, trees.part))
    tests = ObliviousTests(
        trees.number_column,
        trees.number_border,
        trees.number_missing,
        np.searchsorted(columns, trees.category_column),
        trees.category_hash,
        columns,
        trees.part_is_test,
        place,
        trees.combination_start,
        trees.table_combination,
        trees.table_start,
        trees.table_hash,
        trees.statistic_table,
        trees.statistic_start[:-1],
        trees.statistic_value,
        trees.test_statistic,
        trees.test_border,
    )
    arrays = [read_only(values.astype(dtype)) for values, dtype in zip(tests, TEST_DTYPES, strict=True)]
    n_tables = len(trees.table_combination)

    def outcomes(X: HostArray) -> HostArray:
        found = np.zeros((len(X), trees.n_tests + 1), bool)
        fill_outcomes(X, *arrays, np.empty(len(columns), np.uint32), np.empty(n_tables, np.int64), found)
        return found

    return outcomes


class _Tests:
    """The tests of a model in NumPy."""

    def __init__(self, trees: CatBoostTrees) -> None:
        import numpy as np

        self._trees, self._n_numbers = trees, len(trees.number_column)
        self._columns = sorted({*trees.category_column.tolist(), *trees.part[~trees.part_is_test].tolist()})
        place = {column: i for i, column in enumerate(self._columns)}
        self._category_place = np.array([place[column] for column in trees.category_column.tolist()], np.intp)
        self._has_missing = bool(trees.number_missing.any())
        parts = [
            (bool(is_test), part if is_test else place[part])
            for is_test, part in zip(trees.part_is_test.tolist(), trees.part.tolist(), strict=True)
        ]
        self._combinations = [parts[start:end] for start, end in pairwise(trees.combination_start.tolist())]
        first_value = trees.statistic_start
        self._tables = []
        by_table = np.argsort(trees.statistic_table, kind="stable")
        ends = np.searchsorted(trees.statistic_table[by_table], np.arange(1, len(trees.table_start)))
        for table, (start, end) in enumerate(pairwise(trees.table_start.tolist())):
            own = by_table[ends[table - 1] if table else 0 : ends[table]]
            combination = int(trees.table_combination[table])
            self._tables.append((combination, trees.table_hash[start:end], own, first_value[own]))

    def outcomes(self, X: HostArray) -> HostArray:
        """Return whether each row passes each test, bool, shape (n, n_tests + 1); the last column is False."""
        import numpy as np

        trees, n_numbers = self._trees, self._n_numbers
        n_plain = n_numbers + len(self._category_place)
        outcomes = np.empty((len(X), trees.n_tests + 1), bool)
        outcomes[:, -1] = False
        numbers = X[:, trees.number_column]
        np.greater(numbers, trees.number_border, out=outcomes[:, :n_numbers])
        if self._has_missing:
            outcomes[:, :n_numbers] |= np.isnan(numbers) & trees.number_missing
        hashes = np.empty((len(X), len(self._columns)), np.uint32)
        for i, column in enumerate(self._columns):
            hashes[:, i] = _hashes(X[:, column])
        np.equal(hashes[:, self._category_place], trees.category_hash, out=outcomes[:, n_numbers:n_plain])
        if len(trees.test_statistic):
            statistics = self._statistics(hashes, outcomes)
            np.greater(statistics[:, trees.test_statistic], trees.test_border, out=outcomes[:, n_plain:-1])
        return outcomes

    def _statistics(self, hashes: HostArray, outcomes: HostArray) -> HostArray:
        """Return the statistics of each row, float32, shape (n, n_statistics)."""
        import numpy as np

        signed = hashes.view(np.int32).astype(np.int64).astype(np.uint64)  # as CatBoost extends them to 64 bits
        factor, values = np.uint64(COMBINE), self._trees.statistic_value
        found = np.empty((len(outcomes), len(self._trees.statistic_table)), np.float32)
        combined = []
        for parts in self._combinations:
            total = np.zeros(len(outcomes), np.uint64)
            for is_test, place in parts:
                value = outcomes[:, place].astype(np.uint64) if is_test else signed[:, place]
                total = factor * (total + factor * value)
            combined.append(total)
        for combination, known, statistics, first in self._tables:
            at = np.searchsorted(known, combined[combination])
            if len(known):
                at[known.take(at, mode="clip") != combined[combination]] = len(known)
            found[:, statistics] = values[first + at[:, None]]
        return found


def _hashes(codes: HostArray) -> HostArray:
    """Return the hash of each category code, uint32; values that are not codes have the hash of -1."""
    import numpy as np

    from gpupipe_kernels.rows.trees import MAX_CATEGORY

    is_code = (codes >= 0) & (codes < MAX_CATEGORY)
    whole = np.where(is_code, codes, -1).astype(np.int64)
    if len(whole) == 1:
        return np.array([category_hash(int(whole[0]))], np.uint32)
    distinct, at = np.unique(whole, return_inverse=True)
    return np.array([category_hash(int(code)) for code in distinct], np.uint32)[at]


@lru_cache(maxsize=1 << 16)
def category_hash(code: int) -> int:
    """Return the hash of the digits of a code of at most 8 digits: the lower 32 bits of CityHash64."""
    text = str(code).encode()
    size = len(text)
    if size >= 4:
        first, last = int.from_bytes(text[:4], "little"), int.from_bytes(text[-4:], "little")
        return _mix(size + (first << 3) & _MASK, last) & 0xFFFFFFFF
    y = text[0] + (text[size >> 1] << 8)
    z = size + (text[-1] << 2)
    mixed = (y * K2 ^ z * K3) & _MASK
    return ((mixed ^ (mixed >> 47)) * K2) & 0xFFFFFFFF


def _mix(low: int, high: int) -> int:
    a = ((low ^ high) * MIX) & _MASK
    a ^= a >> 47
    b = ((high ^ a) * MIX) & _MASK
    b ^= b >> 47
    return (b * MIX) & _MASK

"""CatBoost's oblivious trees as arrays: tests, statistics of categories, and leaves; stored as npz.

CatBoost's own binary format is read by compiled code that trusts its indices. gpupipe therefore stores the trees in its
own arrays, which are checked before they are used, and predicts from them without CatBoost.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.artifact.untrusted.archives import read_arrays
from gpupipe.models.files.description import Description
from gpupipe.tasks import CLASSIFICATION

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

MAX_DEPTH = 16  # CatBoost's limit


@dataclass(frozen=True)
class CatBoostTrees:
    """The trees of a model. Tests are numbered: first those on numbers, then on categories, then on statistics.

    A statistic of categories (CatBoost's CTR) is a number for each combination of categories, and possibly outcomes of
    tests, that occurred in the training rows. Combinations are hashed; the last value of a statistic is that of any
    other combination.
    """

    # number_column, number_border, number_missing: int32, float32 and bool, shape (n_numbers,): tests whether a number
    # exceeds a border, and their outcomes for a missing value.
    number_column: HostArray
    number_border: HostArray
    number_missing: HostArray
    # category_column, category_hash: int32 and uint32, shape (n_categories,): tests whether a category has a hash.
    category_column: HostArray
    category_hash: HostArray
    # part_is_test, part: bool and int32, shape (n_parts,): parts of combinations: the category in a column, or the
    # outcome of a test.
    part_is_test: HostArray
    part: HostArray
    combination_start: HostArray  # int64, shape (n_combinations + 1,): first part of each combination
    table_combination: HostArray  # int32, shape (n_tables,)
    table_start: HostArray  # int64, shape (n_tables + 1,): first hash of each table of combinations
    table_hash: HostArray  # uint64: in ascending order within a table
    statistic_table: HostArray  # int32, shape (n_statistics,)
    statistic_value: HostArray  # float32: one value for each hash of the table, and one for others, of each statistic
    # test_statistic, test_border: int32 and float32, shape (n_statistic_tests,): tests whether a statistic exceeds a
    # border.
    test_statistic: HostArray
    test_border: HostArray
    tree_depth: HostArray  # int32, shape (n_trees,)
    # int32, shape (sum of depths,): tests of each tree; the outcome of the first is the lowest bit of the number of a
    # leaf.
    tree_test: HostArray
    leaf: HostArray  # float64, shape (sum of 2**depth, n_outputs)
    bias: HostArray  # float64, shape (n_outputs,): added to the sum of leaves
    is_log: HostArray  # bool, shape (1,): whether the sum is the logarithm of the prediction
    importance: HostArray  # float64, shape (n_columns,): mean change of the prediction by the column
    # float64, shape (sum of 2**depth,): weight of the training rows in each leaf; None in models of earlier versions.
    leaf_weight: HostArray | None = None

    @property
    def arrays(self) -> dict[str, HostArray]:
        """The arrays by name."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in arrays.items() if array is not None}

    @property
    def n_tests(self) -> int:
        """Number of tests."""
        return len(self.number_column) + len(self.category_column) + len(self.test_statistic)

    @property
    def statistic_start(self) -> HostArray:
        """First value of each statistic, int64, shape (n_statistics + 1,)."""
        sizes = np.diff(self.table_start)[self.statistic_table] + 1
        return np.concatenate([[0], np.cumsum(sizes)])


DTYPES = {
    "number_column": "<i4", "number_border": "<f4", "number_missing": "|b1", "category_column": "<i4",
    "category_hash": "<u4", "part_is_test": "|b1", "part": "<i4", "combination_start": "<i8",
    "table_combination": "<i4", "table_start": "<i8", "table_hash": "<u8", "statistic_table": "<i4",
    "statistic_value": "<f4", "test_statistic": "<i4", "test_border": "<f4", "tree_depth": "<i4", "tree_test": "<i4",
    "leaf": "<f8", "bias": "<f8", "is_log": "|b1", "importance": "<f8", "leaf_weight": "<f8",
}  # fmt: skip


def read_trees(data: bytes, expected: Description) -> CatBoostTrees:
    """Return the trees in the content of a file.

    Raise ValueError if the file is malformed, an index is out of range, or the columns or outputs do not match
    `expected`.
    """
    arrays = read_arrays(data)
    if set(arrays) | {"leaf_weight"} != set(DTYPES):
        raise ValueError(f"expected the arrays of a CatBoost model; got {', '.join(sorted(arrays))[:80] or 'none'}")
    for name in arrays:
        dtype = DTYPES[name]
        if arrays[name].dtype != dtype or arrays[name].ndim != (2 if name == "leaf" else 1):
            raise ValueError(f"{name} has the wrong type or shape")
        if arrays[name].dtype.kind == "f" and np.isnan(arrays[name]).any():
            raise ValueError(f"{name} has a value that is not a number")
    trees = CatBoostTrees(**arrays)
    n_columns, n_outputs = len(trees.importance), len(trees.bias)
    expected.check_columns(n_columns)
    expected.check_outputs(n_outputs)
    if len(trees.is_log) != 1 or (trees.is_log[0] and expected.task in CLASSIFICATION):
        raise ValueError("the transform of its sums does not match the task")
    _check_tests(trees, n_columns)
    _check_statistics(trees, n_columns)
    _check_leaves(trees, n_outputs)
    return trees


def _check_tests(trees: CatBoostTrees, n_columns: int) -> None:
    for names in (
        ("number_column", "number_border", "number_missing"),
        ("category_column", "category_hash"),
        ("part_is_test", "part"),
        ("test_statistic", "test_border"),
    ):
        _check(len({len(getattr(trees, name)) for name in names}) == 1, f"{names[0]} and {names[-1]} differ in length")
    _check_range(trees.number_column, n_columns, "number_column")
    _check_range(trees.category_column, n_columns, "category_column")
    _check_range(trees.test_statistic, len(trees.statistic_table), "test_statistic")


def _check_statistics(trees: CatBoostTrees, n_columns: int) -> None:
    n_plain = len(trees.number_column) + len(trees.category_column)
    _check_range(trees.part[trees.part_is_test], n_plain, "part")
    _check_range(trees.part[~trees.part_is_test], n_columns, "part")
    _check_starts(trees.combination_start, len(trees.part), "combination_start")
    _check_starts(trees.table_start, len(trees.table_hash), "table_start")
    _check_range(trees.table_combination, len(trees.combination_start) - 1, "table_combination")
    _check(len(trees.table_combination) == len(trees.table_start) - 1, "its tables differ in number")
    _check_range(trees.statistic_table, len(trees.table_combination), "statistic_table")
    _check(int(trees.statistic_start[-1]) == len(trees.statistic_value), "statistic_value has the wrong length")
    is_first = np.zeros(len(trees.table_hash) + 1, bool)
    is_first[trees.table_start] = True
    ascending = trees.table_hash[1:] > trees.table_hash[:-1]
    _check(bool((ascending | is_first[1:-1]).all()), "the hashes of a table are not in ascending order")


def _check_leaves(trees: CatBoostTrees, n_outputs: int) -> None:
    depth = trees.tree_depth.astype(np.int64)
    _check(len(depth) > 0, "it has no trees")
    _check_range(depth, MAX_DEPTH + 1, "tree_depth")
    _check(int(depth.sum()) == len(trees.tree_test), "tree_test has the wrong length")
    _check_range(trees.tree_test, trees.n_tests, "tree_test")
    _check(trees.leaf.shape == (int((1 << depth).sum()), n_outputs), "leaf has the wrong shape")
    if (weight := trees.leaf_weight) is not None:
        _check(weight.shape == trees.leaf.shape[:1], "leaf_weight has the wrong length")
        _check(bool((np.isfinite(weight) & (weight >= 0)).all()), "the weight of a leaf is negative or not finite")
    _check(bool(np.isfinite(trees.leaf).all() and np.isfinite(trees.bias).all()), "a leaf is not finite")


def _check_range(values: HostArray, end: int, name: str) -> None:
    _check(len(values) == 0 or bool(values.min() >= 0 and values.max() < end), f"{name} is out of range")


def _check_starts(starts: HostArray, end: int, name: str) -> None:
    is_valid = len(starts) > 0 and starts[0] == 0 and starts[-1] == end and bool((starts[1:] >= starts[:-1]).all())
    _check(is_valid, f"{name} is out of range")


def _check(is_valid: Any, problem: str) -> None:
    if not is_valid:
        raise ValueError(problem)

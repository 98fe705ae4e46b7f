"""Compiled tests of CatBoost's oblivious trees, and sums of their leaves."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import float32, int32, int64, uint32, uint64

from gpupipe_kernels.launch import formula, host_walk
from gpupipe_kernels.rows.city_hash import COMBINE, K2, K3, MIX
from gpupipe_kernels.rows.trees import MAX_CATEGORY

_K2 = uint64(K2)
_K3 = uint64(K3)
_MIX = uint64(MIX)
_COMBINE = uint64(COMBINE)
_CATEGORIES = float32(MAX_CATEGORY)
_HALF, _BYTE = uint64(0xFFFFFFFF), uint64(0xFF)


class ObliviousTests(NamedTuple):
    """The tests of a model, as read-only arrays.

    Attributes
    ----------
    number_column, number_border, number_missing : array of int32, float32 and bool
    category_place, category_hash : array of int32 and uint32
        Tests whether the category in a place of `column` has a hash.
    column : array of int32
        Columns of categories.
    part_is_test, part : array of bool and int32
        Parts of combinations: the outcome of a test, or the category in a place of `column`.
    combination_start : array of int64
    table_combination, table_start, table_hash : array of int32, int64 and uint64
    statistic_table, statistic_start, statistic_value : array of int32, int64 and float32
    test_statistic, test_border : array of int32 and float32
    """

    number_column: Any
    number_border: Any
    number_missing: Any
    category_place: Any
    category_hash: Any
    column: Any
    part_is_test: Any
    part: Any
    combination_start: Any
    table_combination: Any
    table_start: Any
    table_hash: Any
    statistic_table: Any
    statistic_start: Any
    statistic_value: Any
    test_statistic: Any
    test_border: Any


TEST_DTYPES = ["i4", "f4", "?", "i4", "u4", "i4", "?", "i4", "i8", "i4", "i8", "u8", "i4", "i8", "f4", "i4", "f4"]
"""Dtypes of the arrays of `ObliviousTests`, in order."""


@formula
def _category_hash(x):
    """Return the lower 32 bits of CityHash64 of the digits of a category code; other numbers have the hash of -1."""
    word, size = uint64(0x312D), int64(2)  # the text "-1"
    if x >= float32(0) and x < _CATEGORIES:
        code = int64(x)
        word = uint64(0)
        size = int64(0)
        while size == int64(0) or code > int64(0):
            word = (word << uint64(8)) | uint64(int64(48) + code % int64(10))
            code //= int64(10)
            size += int64(1)
    if size >= int64(4):
        last = (word >> uint64(int64(8) * (size - int64(4)))) & _HALF
        low = uint64(size) + ((word & _HALF) << uint64(3))
        a = (low ^ last) * _MIX
        a ^= a >> uint64(47)
        b = (last ^ a) * _MIX
        b ^= b >> uint64(47)
        return uint32((b * _MIX) & _HALF)
    middle = (word >> uint64(int64(8) * (size >> int64(1)))) & _BYTE
    end = (word >> uint64(int64(8) * (size - int64(1)))) & _BYTE
    y = (word & _BYTE) + (middle << uint64(8))
    z = uint64(size) + (end << uint64(2))
    mixed = (y * _K2) ^ (z * _K3)
    return uint32(((mixed ^ (mixed >> uint64(47))) * _K2) & _HALF)


@host_walk
def fill_outcomes(
    X,
    number_column,
    number_border,
    number_missing,
    category_place,
    category_hash,
    column,
    part_is_test,
    part,
    combination_start,
    table_combination,
    table_start,
    table_hash,
    statistic_table,
    statistic_start,
    statistic_value,
    test_statistic,
    test_border,
    hashes,
    found,
    outcomes,
):
    """Write whether each row passes each test.

    Parameters
    ----------
    X : array of float32, shape (n, d), C-contiguous
    number_column, ... : array
        As in `ObliviousTests`.
    hashes, found : array of uint32, shape (n_columns,), and of int64, shape (n_tables,)
        Working memory.
    outcomes : array of bool, shape (n, n_tests + 1)
        The last column stays False.
    """
    n_numbers, n_categories = number_column.shape[0], category_place.shape[0]
    for row in range(X.shape[0]):
        for i in range(n_numbers):
            x = X[row, number_column[i]]
            outcomes[row, i] = x > number_border[i] or (number_missing[i] and x != x)
        for i in range(column.shape[0]):
            hashes[i] = _category_hash(X[row, column[i]])
        for i in range(n_categories):
            outcomes[row, n_numbers + i] = hashes[category_place[i]] == category_hash[i]
        for t in range(table_combination.shape[0]):
            combination = table_combination[t]
            total = uint64(0)
            for p in range(combination_start[combination], combination_start[combination + 1]):
                # A hash is extended to 64 bits as a signed number.
                value = uint64(outcomes[row, part[p]]) if part_is_test[p] else uint64(int64(int32(hashes[part[p]])))
                total = _COMBINE * (total + _COMBINE * value)
            low, high = table_start[t], table_start[t + 1]
            end = high
            while low < high:
                middle = (low + high) >> int64(1)
                if table_hash[middle] < total:
                    low = middle + int64(1)
                else:
                    high = middle
            is_known = low < end and table_hash[low] == total
            found[t] = (low if is_known else end) - table_start[t]
        for i in range(test_statistic.shape[0]):
            s = test_statistic[i]
            value_of_row = statistic_value[statistic_start[s] + found[statistic_table[s]]]
            outcomes[row, n_numbers + n_categories + i] = value_of_row > test_border[i]


@host_walk
def add_leaves(outcomes, depth, test, leaf, out):
    """Add the leaves of each tree to `out` in the order of the trees.

    Parameters
    ----------
    outcomes : array of bool, shape (n, n_tests + 1), C-contiguous
    depth, test, leaf : array
        As in `gpupipe_kernels.rows.oblivious.ObliviousTrees`.
    out : array of float64, shape (n, n_outputs)
        First term of each sum; overwritten with the sums.
    """
    for row in range(outcomes.shape[0]):
        first_test, first_leaf = int64(0), int64(0)
        for t in range(depth.shape[0]):
            number = int64(0)
            for level in range(depth[t]):
                number |= int64(outcomes[row, test[first_test + level]]) << int64(level)
            for j in range(out.shape[1]):
                out[row, j] += leaf[first_leaf + number, j]
            first_test += depth[t]
            first_leaf += int64(1) << int64(depth[t])

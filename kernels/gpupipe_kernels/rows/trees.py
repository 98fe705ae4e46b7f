"""Binary trees packed for walks of single rows.

A row is first written as a table of int32 numbers, which the nodes compare: each float in a code with the same order,
once with missing values below all floats and once above them, so that the walk itself has no missing values. A node
sends a row to the right if its number exceeds the code of the node. Libraries that compare with "less than", or with
thresholds in float64, give the largest float32 that goes to the left (`less_than`, `at_most`), which decides alike.

The nodes of a tree are stored level by level, and two siblings are neighbors, so a node names its left child only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gpupipe_kernels.typing import HostArray

# child: the left one; a leaf names itself. column: position in the table of the row, 0 for leaves. code: of the
# threshold; of a leaf, the position of its values; of a categorical split, its last word. words: the first word of a
# categorical split, else 0.
NODE = np.dtype([("child", np.int32), ("column", np.int32), ("code", np.int32), ("words", np.int32)])
TREE = np.dtype([("root", np.int32), ("depth", np.int32), ("output", np.int32)])
LEFT, RIGHT = 0, 1
LEAF = -1
LOWEST, HIGHEST = np.iinfo(np.int32).min, np.iinfo(np.int32).max  # no float has these codes
SIGN, MAGNITUDE = np.int32(31), np.int32(HIGHEST)
WORD = 32  # categories per word
MAX_CATEGORY = 1 << 24  # float32 represents every integer below it exactly


class TreeArrays(NamedTuple):
    """The nodes of all trees of a model, in any order; the arrays have one item per node.

    Attributes
    ----------
    left, right : array of int
        Positions of the children; `LEAF` for leaves.
    column : array of int
    threshold : array of float32
        Largest value that goes to the left; NaN if no value does.
    missing : array of int
        The side of missing values: `LEFT` or `RIGHT`.
    words : array of int
        Position of the categories in `CategoryWords`; 0 unless the node splits by categories.
    value : array, shape (n_nodes, m)
        The m numbers of each leaf.
    cover : array of float, optional
        Weight of the training rows in each node; None if it is not needed.
    """

    left: HostArray
    right: HostArray
    column: HostArray
    threshold: HostArray
    missing: HostArray
    words: HostArray
    value: HostArray
    cover: HostArray | None = None


class PackedTrees(NamedTuple):
    """Trees in the form that kernels walk.

    Attributes
    ----------
    nodes : array of `NODE`
    trees : array of `TREE`
        Root and depth of each tree, and the output to which it adds the first number of its leaf.
    words : array of uint32
        See `CategoryWords`.
    values : array, shape (n_leaves, m)
    n_columns : int
        Number of columns of the rows.
    width : int
        Length of a row's table: 1 number for leaves, then each column once for splits that send missing values to the
        left, once for those that send them to the right, and, if there are categorical splits, once for these.
    cover : array of float64, shape (n_nodes,), optional
        Weight of the training rows in each node; None if it is not known.
    """

    nodes: HostArray
    trees: HostArray
    words: HostArray
    values: HostArray
    n_columns: int
    width: int
    cover: HostArray | None = None


class CategoryWords:
    """Category sets of splits as words of bits; a set bit sends the category to the right.

    A split has one word for missing values, one per 32 categories, and one for all other values. The first word of all
    is `is_exact`.

    Parameters
    ----------
    is_exact : bool
        Whether a fraction is an unknown category; else it is rounded towards 0.
    """

    def __init__(self, is_exact: bool) -> None:
        self._words = [np.array([is_exact], np.uint32)]
        self._size = 1

    def add(self, right: HostArray, missing: int, other: int) -> int:
        """Append the set of one split; return its position.

        Parameters
        ----------
        right : array of int
            Categories that go to the right, from 0 to `MAX_CATEGORY`, exclusive. The other categories of the same words
            go to the left.
        missing, other : int
            The side of missing values, and of all other values: negative ones and those larger than the last word's.
        """
        words = np.zeros(int(right.max(initial=-1)) // WORD + 1, np.uint32)
        np.bitwise_or.at(words, right // WORD, np.uint32(1) << (right % WORD).astype(np.uint32))
        return self.add_words(words, missing, other)

    def add_words(self, right: HostArray, missing: int, other: int) -> int:
        """Append the set of one split, given as words; return its position.

        Parameters
        ----------
        right : array of uint32
            Bit j of word i is set if category 32 i + j goes to the right.
        missing, other : int
            As in `add`.
        """
        ends = (np.uint32(0xFFFFFFFF) if side == RIGHT else np.uint32(0) for side in (missing, other))
        words = np.empty(len(right) + 2, np.uint32)
        words[1:-1] = right
        words[0], words[-1] = ends
        position = self._size
        self._words.append(words)
        self._size += len(words)
        return position

    def joined(self) -> tuple[HostArray, HostArray]:
        """Return the words of all splits, uint32, and for the position of each split, the number of its last word."""
        last = np.zeros(self._size, np.int32)
        n_words = np.array([len(words) for words in self._words])
        last[np.cumsum(n_words) - n_words] = n_words - 1
        return np.concatenate(self._words), last


def less_than(threshold: HostArray) -> HostArray:
    """Return the float32 `t` for which ``x <= t`` decides as ``x < threshold`` for every float32 `x`; NaN: never."""
    below: HostArray = np.nextafter(threshold, np.float32(-np.inf))
    return np.where(threshold == -np.inf, np.float32(np.nan), below)


def at_most(threshold: HostArray) -> HostArray:
    """Return the float32 `t` for which ``x <= t`` decides as ``x <= threshold``, float64, for every float32 `x`."""
    with np.errstate(over="ignore"):  # of thresholds outside of float32, and of the number after its smallest
        near = threshold.astype(np.float32)
        return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near)


def ordered_codes(values: HostArray) -> HostArray:
    """Return int32 numbers in the order of contiguous float32 `values`; -0.0 comes directly before 0.0."""
    bits = values.view(np.int32)
    return bits ^ ((bits >> SIGN) & MAGNITUDE)


def pack_trees(
    arrays: TreeArrays, roots: HostArray, outputs: HostArray, categories: CategoryWords, n_columns: int
) -> PackedTrees:
    """Return trees in the form that kernels walk; nodes that no root reaches are dropped.

    Parameters
    ----------
    roots, outputs : array of int, shape (n_trees,)
        Root node of each tree, and the output to which it adds the first number of its leaf.
    n_columns : int
        Number of columns of the rows.
    """
    order, depths = _breadth_first(arrays.left, arrays.right, roots)
    position = np.zeros(len(arrays.left), np.int64)
    position[order] = np.arange(len(order))
    left = arrays.left[order]
    missing = arrays.missing[order]
    first = arrays.words[order]
    is_leaf = left < 0
    first = np.where(is_leaf, 0, first)
    words, last_word = categories.joined()

    threshold = arrays.threshold[order] + np.float32(0)  # -0.0 equals 0.0
    code = np.where(np.isnan(threshold), np.int32(LOWEST + 1), ordered_codes(threshold))
    copy = np.where(first > 0, 2, missing)
    nodes = np.zeros(len(order), NODE)
    nodes["child"] = np.where(is_leaf, np.arange(len(order)), position[left])
    nodes["column"] = np.where(is_leaf, 0, 1 + copy * n_columns + arrays.column[order])
    nodes["code"] = np.where(is_leaf, np.cumsum(is_leaf) - 1, np.where(first > 0, last_word[first], code))
    nodes["words"] = first
    trees = np.zeros(len(roots), TREE)
    trees["root"] = position[roots]
    trees["depth"] = depths
    trees["output"] = outputs
    values = np.ascontiguousarray(arrays.value[order[is_leaf]])
    width = 1 + n_columns * (3 if len(words) > 1 else 2)
    cover = None if arrays.cover is None else arrays.cover[order].astype(np.float64)
    return PackedTrees(nodes, trees, words, values, n_columns, width, cover)


def join_forests(
    parts: Sequence[PackedTrees], columns: Sequence[Sequence[int]], n_columns: int, n_outputs: int
) -> PackedTrees:
    """Return the trees of several models as one forest over a wider matrix.

    Parameters
    ----------
    parts : sequence of PackedTrees
        With the same first word; see `CategoryWords`.
    columns : sequence of sequences of int
        For each part, the columns of the wider matrix that its columns are.
    n_columns : int
        Number of columns of the wider matrix.
    n_outputs : int
        Number of outputs of each part; those of part i start at ``i * n_outputs``.
    """
    n_nodes = n_leaves = n_words = 0
    nodes = []
    trees = []
    has_categories = False
    for i, (part, own_columns) in enumerate(zip(parts, columns, strict=True)):
        node, tree = part.nodes.copy(), part.trees.copy()
        is_leaf = node["child"] == np.arange(len(node))
        is_category = node["words"] > 0
        copies, column = np.divmod(node["column"] - 1, part.n_columns)
        wider = 1 + copies * n_columns + np.asarray(own_columns, np.int64)[np.where(is_leaf, 0, column)]
        node["column"] = np.where(is_leaf, 0, wider)
        node["child"] += n_nodes
        node["code"][is_leaf] += n_leaves
        node["words"][is_category] += n_words
        tree["root"] += n_nodes
        tree["output"] += i * n_outputs
        nodes.append(node)
        trees.append(tree)
        has_categories |= bool(is_category.any())
        n_nodes = n_nodes + len(node)
        n_leaves = n_leaves + len(part.values)
        n_words = n_words + len(part.words)
    return PackedTrees(
        np.concatenate(nodes),
        np.concatenate(trees),
        np.concatenate([part.words for part in parts]),
        np.concatenate([part.values for part in parts]),
        n_columns,
        1 + n_columns * (3 if has_categories else 2),
    )


def _breadth_first(left: HostArray, right: HostArray, roots: HostArray) -> tuple[HostArray, HostArray]:
    """Return the nodes of each tree after those of the tree before, level by level, and the depth of each tree."""
    level, tree = np.asarray(roots, np.int64), np.arange(len(roots))
    depths = np.zeros(len(roots), np.int64)
    levels: list[HostArray] = [np.zeros(0, np.int64)]
    owners: list[HostArray] = [np.zeros(0, np.int64)]
    while len(level):
        levels.append(level)
        owners.append(tree)
        is_inner = left[level] >= 0
        parents, tree = level[is_inner], np.repeat(tree[is_inner], 2)
        depths[tree] += 1
        level = np.stack([left[parents], right[parents]], axis=1).reshape(-1)
    return np.concatenate(levels)[np.argsort(np.concatenate(owners), kind="stable")], depths


def join_nodes(parts: Sequence[HostArray], shifts: HostArray | None = None) -> HostArray:
    """Return the arrays of all trees as one; with `shifts`, positions that are not `LEAF` are moved by those."""
    if not parts:
        return np.zeros(0, np.int64)
    if shifts is None:
        return np.concatenate(parts)
    return np.concatenate([np.where(part < 0, LEAF, part + shift) for part, shift in zip(parts, shifts, strict=True)])

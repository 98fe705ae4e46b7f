"""Binary trees as ONNX nodes: the operator TreeEnsemble, in float64.

A split by a set of categories compares a bit that is looked up by the category, ahead of the trees. TreeEnsemble has a
mode for sets, but the reference implementation of onnx 1.23 ends a set at category 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpupipe.inference.onnx.exact_splits import OperandColumn, exact_splits
from gpupipe.inference.onnx.graph import ML, OnnxGraph
from gpupipe.inference.targets.tree_splits import category_bits, number_splits, split_columns
from gpupipe_kernels.rows.trees import PackedTrees

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

# Numbers in the attributes of the operator
SUM = 1
NO_TRANSFORM = 0
AT_MOST = 0


class TreeMatrix(NamedTuple):
    """The columns that trees read.

    ``n_codes``: for each column its number of codes, 0 for numbers.
    ``exact``: the columns that are split by an operand.
    """

    name: str
    n_codes: Sequence[int]
    exact: Mapping[int, OperandColumn] = {}

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.n_codes)


def write_trees(graph: OnnxGraph, X: TreeMatrix, packed: PackedTrees, start: HostArray) -> str:
    """Return the sums of leaves, float64, shape (rows, n_outputs).

    - `X`: of float64
    - `packed`: with one number per leaf, or one for each output
    - `start` (array of float64, shape (n_outputs,)): first term of each sum
    """
    if not len(packed.trees):
        zero = graph.constant(0.0, np.float64)
        nothing = graph.add("Mul", graph.cast(graph.add("IsNaN", graph.select(X.name, [0], X.width)), np.float64), zero)
        return graph.add("Add", nothing, graph.constant(start, np.float64))
    values = packed.values.astype(np.float64)
    nodes = packed.nodes
    is_leaf = nodes["child"] == np.arange(len(nodes))
    n_trees, n_outputs = len(packed.trees), len(start)
    tree_of = np.zeros(len(nodes), np.int64)
    tree_of[packed.trees["root"][1:]] = 1  # the nodes of a tree are neighbors, the root first
    tree_of = np.cumsum(tree_of)
    leaves = np.flatnonzero(is_leaf)
    value_of = nodes["code"][leaves]
    by_set, column = nodes["words"] > 0, split_columns(packed)
    numbers = number_splits(packed)
    added, numbers = exact_splits(graph, X.width, X.exact, numbers)
    if added:
        wider = graph.join([X.name, *(graph.cast(each, np.float64) for each in added)])
        X = TreeMatrix(wider, [*X.n_codes, *(0 for _ in added)])
    column = np.where(is_leaf, 0, np.where(by_set, column, numbers.column))
    matrix, column = _with_category_bits(graph, X, packed, column)
    threshold = np.where(by_set, 0.5, numbers.limit)
    children = nodes["child"].astype(np.int64)
    splits = _Splits(column, threshold, numbers.missing_left, children, is_leaf, packed.trees["root"])
    if values.shape[1] == 1:
        targets = packed.trees["output"].astype(np.int64)[tree_of[leaves]]
        found = _ensemble(graph, matrix, splits, targets, values[value_of, 0], n_outputs)
    else:
        # A leaf of the operator has one number: here it is the position of the leaf's values.
        leaf = _ensemble(graph, matrix, splits, tree_of[leaves], value_of.astype(np.float64), n_trees)
        each = graph.add("Gather", graph.constant(values), graph.cast(leaf, np.int64), axis=0)
        found = graph.add("ReduceSum", each, graph.constant([1], np.int64), keepdims=0)
    return graph.add("Add", found, graph.constant(start, np.float64)) if start.any() else found


class _Splits(NamedTuple):
    """All nodes of all trees, leaves included."""

    column: HostArray
    threshold: HostArray
    missing_left: HostArray
    child: HostArray
    is_leaf: HostArray
    root: HostArray


def _ensemble(
    graph: OnnxGraph, matrix: str, trees: _Splits, targets: HostArray, weights: HostArray, n_targets: int
) -> str:
    """Return the sums of the weights of leaves by target, float64, shape (rows, n_targets)."""
    from onnx import numpy_helper

    inner = np.flatnonzero(~trees.is_leaf)
    position = np.where(trees.is_leaf, np.cumsum(trees.is_leaf), np.cumsum(~trees.is_leaf)) - 1
    left, right = trees.child[inner], trees.child[inner] + 1
    # The operator has no tree without a split: both sides of an added one are the leaf.
    lone = trees.root[trees.is_leaf[trees.root]]
    root = np.where(
        trees.is_leaf[trees.root], len(inner) + np.cumsum(trees.is_leaf[trees.root]) - 1, position[trees.root]
    )

    def with_lone(values: HostArray, of_lone: HostArray | float) -> HostArray:
        return np.concatenate([values, np.broadcast_to(of_lone, len(lone)).astype(values.dtype)])

    n_splits = len(inner) + len(lone)
    attributes = {
        "tree_roots": root,
        "nodes_featureids": with_lone(trees.column[inner], 0),
        "nodes_truenodeids": with_lone(position[left], position[lone]),
        "nodes_falsenodeids": with_lone(position[right], position[lone]),
        "nodes_trueleafs": with_lone(trees.is_leaf[left].astype(np.int64), 1),
        "nodes_falseleafs": with_lone(trees.is_leaf[right].astype(np.int64), 1),
        "nodes_missing_value_tracks_true": with_lone(trees.missing_left[inner].astype(np.int64), 0),
        "leaf_targetids": targets,
    }
    tensors = {
        "nodes_splits": with_lone(trees.threshold[inner], 0.0),
        "nodes_modes": np.full(n_splits, AT_MOST, np.uint8),
        "leaf_weights": weights,
    }
    return graph.add(
        "TreeEnsemble",
        matrix,
        domain=ML,
        n_targets=n_targets,
        aggregate_function=SUM,
        post_transform=NO_TRANSFORM,
        **{name: values.tolist() for name, values in attributes.items()},
        **{name: numpy_helper.from_array(values, name) for name, values in tensors.items()},
    )


def _with_category_bits(
    graph: OnnxGraph, X: TreeMatrix, packed: PackedTrees, column: HostArray
) -> tuple[str, HostArray]:
    """Return the matrix with a column for each set of categories, and the column that each node reads."""
    nodes = packed.nodes
    by_column: dict[int, list[int]] = {}
    for node in np.flatnonzero(nodes["words"] > 0).tolist():
        by_column.setdefault(int(column[node]), []).append(node)
    if not by_column:
        return X.name, column
    sets = {own: _CategorySets.of(packed, members, X.n_codes[own]) for own, members in sorted(by_column.items())}
    start = X.width
    for own, members in sorted(by_column.items()):
        column[members] = start + sets[own].of_split
        start += len(sets[own].bits)
    return graph.join([X.name, _looked_up(graph, X, sets)]), column


class _CategorySets(NamedTuple):
    """The distinct sets of categories that split one column.

    ``bits``: 1 for the members of a set, uint8, shape (n_sets, n_rows); categories in the same sets share a row.
    ``row_of``: the row of each category.
    ``of_split``: the set of each split.
    """

    bits: HostArray
    row_of: HostArray
    of_split: HostArray

    @classmethod
    def of(cls, packed: PackedTrees, members: list[int], n_codes: int) -> _CategorySets:
        """Return the sets of the given nodes, which split a column of codes."""
        bits, of_split = np.unique(category_bits(packed, members, n_codes), axis=0, return_inverse=True)
        rows, row_of = np.unique(bits.T, axis=0, return_inverse=True)
        return cls(rows.T, row_of.reshape(-1).astype(np.int64), of_split.reshape(-1))


def _looked_up(graph: OnnxGraph, X: TreeMatrix, sets: Mapping[int, _CategorySets]) -> str:
    """Return whether the categories of rows are in the sets, float64, shape (rows, n_sets), for all columns at once."""
    code = graph.cast(graph.select(X.name, list(sets), X.width), np.int64)
    row_of = np.concatenate([own.row_of for own in sets.values()])
    row = graph.add("Gather", graph.constant(row_of), _shifted(graph, code, [len(own.row_of) for own in sets.values()]))
    n_sets = [len(own.bits) for own in sets.values()]
    of_set = graph.select(row, np.repeat(np.arange(len(sets)), n_sets).tolist(), len(sets))
    n_codes = np.repeat([own.bits.shape[1] for own in sets.values()], n_sets)
    of_set = _shifted(graph, of_set, n_codes.tolist())
    bits = np.concatenate([own.bits.reshape(-1) for own in sets.values()])
    return graph.cast(graph.add("Gather", graph.constant(bits), of_set), np.float64)


def _shifted(graph: OnnxGraph, positions: str, lengths: list[int]) -> str:
    """Return positions in tables of these lengths, one for each column, as positions in all tables joined."""
    return graph.add("Add", positions, graph.constant(np.cumsum([0, *lengths[:-1]]), np.int64))

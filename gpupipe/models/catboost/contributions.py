"""CatBoost's oblivious trees as binary trees over the outcomes of tests."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.models.catboost.rows import test_outcomes
from gpupipe.models.contributions.base import Scale
from gpupipe.models.contributions.trees import ExplainedTrees
from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe_kernels.rows.trees import LEAF, LEFT, CategoryWords, TreeArrays, pack_trees

if TYPE_CHECKING:
    from gpupipe.models.catboost.trees import CatBoostTrees
    from gpupipe.typing import HostArray


def explained_catboost(trees: CatBoostTrees, task: Task) -> ExplainedTrees:
    """Return the trees of a CatBoost model: each set of columns that a test reads is a player."""
    columns = _columns_of_tests(trees)
    players: dict[tuple[int, ...], int] = {}
    player = np.array([players.setdefault(own, len(players)) for own in columns], np.int64)
    shares = np.zeros((len(players), len(trees.importance)))
    for own, i in players.items():
        shares[i, list(own)] = 1.0 / len(own)
    scale: Scale = "log of the value" if trees.is_log[0] else "log-odds" if task in CLASSIFICATION else "score"
    outcomes = test_outcomes(trees)
    return ExplainedTrees(
        pack_trees(*_binary_trees(trees), CategoryWords(is_exact=True), trees.n_tests),
        trees.bias.copy(),
        scale,
        read=lambda X: outcomes(X).astype(np.float32),
        players=player,
        shares=shares,
    )


def _columns_of_tests(trees: CatBoostTrees) -> list[tuple[int, ...]]:
    """Return the columns that each test reads, ascending."""
    plain = [(int(column),) for column in (*trees.number_column, *trees.category_column)]
    combinations = []
    for start, end in pairwise(trees.combination_start.tolist()):
        parts = zip(trees.part_is_test[start:end].tolist(), trees.part[start:end].tolist(), strict=True)
        read = set(chain.from_iterable(plain[part] if is_test else (part,) for is_test, part in parts))
        combinations.append(tuple(sorted(read)))
    of_statistic = [combinations[trees.table_combination[table]] for table in trees.statistic_table]
    return plain + [of_statistic[statistic] for statistic in trees.test_statistic]


def _binary_trees(trees: CatBoostTrees) -> tuple[TreeArrays, HostArray, HostArray]:
    """Return the nodes of all trees, their roots and their outputs.

    The root is the last test of a tree, the highest bit of the number of a leaf, as in CatBoost's Shapley values
    (``catboost/libs/fstr/shap_values.cpp``). The nodes of a level are in the order of the leaves below them.
    """
    depths = trees.tree_depth.astype(np.int64)
    sizes = (2 << depths) - 1
    roots = np.cumsum(sizes) - sizes
    first_test, first_leaf = np.cumsum(depths) - depths, np.cumsum(1 << depths) - (1 << depths)
    n_nodes, n_outputs = int(sizes.sum()), trees.leaf.shape[1]
    left, column = np.full(n_nodes, LEAF, np.int64), np.zeros(n_nodes, np.int64)
    value, cover = np.zeros((n_nodes, n_outputs)), np.zeros(n_nodes)
    for root, depth, test, leaf in zip(roots, depths, first_test, first_leaf, strict=True):
        weight = None if trees.leaf_weight is None else trees.leaf_weight[leaf : leaf + (1 << depth)]
        for level in range(depth + 1):
            nodes = slice(root + (1 << level) - 1, root + (2 << level) - 1)
            if weight is not None:
                cover[nodes] = weight.reshape(1 << level, -1).sum(axis=1)
            if level < depth:
                left[nodes] = root + (2 << level) - 1 + 2 * np.arange(1 << level)
                column[nodes] = trees.tree_test[test + depth - 1 - level]
            else:
                value[nodes] = trees.leaf[leaf : leaf + (1 << depth)]
    right = np.where(left < 0, LEAF, left + 1)
    arrays = TreeArrays(
        left=left,
        right=right,
        column=column,
        threshold=np.full(n_nodes, 0.5, np.float32),
        missing=np.full(n_nodes, LEFT),
        words=np.zeros(n_nodes, np.int64),
        value=value,
        cover=None if trees.leaf_weight is None else cover,
    )
    return arrays, roots, np.zeros(len(depths), np.int64)

"""Compilation of the loops for Shapley values of trees, ahead of their first use."""

from __future__ import annotations

import numpy as np

from gpupipe_kernels.launch import read_only
from gpupipe_kernels.rows.trees import LEAF, LEFT, CategoryWords, TreeArrays, pack_trees
from gpupipe_kernels.rows.trees_numba import count_rows
from gpupipe_kernels.shapley.steps import tree_steps
from gpupipe_kernels.shapley.values import TreeShapley


def warm() -> None:
    """Compile all loops or load them from disk; the types of their arguments are the same for every model."""
    zeros = np.zeros(3, np.int64)
    split = TreeArrays(
        left=np.array([1, LEAF, LEAF]),
        right=np.array([2, LEAF, LEAF]),
        column=zeros,
        threshold=np.zeros(3, np.float32),
        missing=np.full(3, LEFT),
        words=zeros,
        value=np.zeros((3, 1)),
        cover=np.array([2.0, 1.0, 1.0]),
    )
    packed = pack_trees(split, zeros[:1], zeros[:1], CategoryWords(is_exact=True), 1)
    rows = np.zeros((1, 1), np.float32)
    TreeShapley(tree_steps(packed, 1)).interactions(rows)  # computes the values too
    arrays = map(read_only, (packed.nodes, packed.trees, packed.words))
    count_rows(rows, *arrays, np.empty(packed.width, np.int32), np.zeros(len(packed.nodes)))

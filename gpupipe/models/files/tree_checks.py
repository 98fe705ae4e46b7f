"""Checks of decision trees from untrusted files.

scikit-learn and XGBoost use the children and the column of a node as positions in memory. A malicious file could make
them read anywhere, or loop for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpupipe.typing import Array


def check_nodes(left: Array, right: Array, column: Array, is_leaf: Array, n_columns: int) -> None:
    """Verify that a tree with root node 0 stays within its nodes and columns, and has no cycle.

    All arrays have shape (n_nodes,). `left` and `right` are the children of each node, and `column` is the column that
    it compares; they are ignored for leaves. Raise ValueError if a child or a column is out of range, or a node has two
    parents.
    """
    import numpy as np

    n_nodes = len(is_leaf)
    if n_nodes == 0 or any(values.shape != (n_nodes,) for values in (left, right, column)):
        raise ValueError("a tree has no nodes, or arrays of different lengths")
    inner = ~is_leaf
    children = np.concatenate([left[inner], right[inner]]).astype(np.int64)
    columns = column[inner].astype(np.int64)
    # The root has no parent and every other node at most one, so there is no cycle.
    if len(children) and (children.min() < 1 or children.max() >= n_nodes):
        raise ValueError(f"a tree of {n_nodes:,} nodes has a child that does not exist")
    if np.bincount(children, minlength=1).max(initial=0) > 1:
        raise ValueError("a node of a tree has two parents")
    if len(columns) and (columns.min() < 0 or columns.max() >= n_columns):
        raise ValueError(f"a tree reads column {columns.max():,} of {n_columns:,}")

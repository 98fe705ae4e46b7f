"""Checks of decision trees that were read from a file.

scikit-learn and XGBoost take the children and the column of a node for positions in memory. A crafted file would have
them read anywhere, or walk for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpupipe.typing import Array


def check_nodes(left: Array, right: Array, column: Array, is_leaf: Array, n_columns: int) -> None:
    """Verify that a tree, whose root is node 0, stays in its nodes and columns and ends.

    Parameters
    ----------
    left, right, column : array of int, shape (n_nodes,)
        Children, and the column that is compared; of leaves they mean nothing.
    is_leaf : array of bool, shape (n_nodes,)
    n_columns : int

    Raises
    ------
    ValueError
        If a child or a column is not there, or a node is the child of two.
    """
    import numpy as np

    n_nodes = len(is_leaf)
    if n_nodes == 0 or any(values.shape != (n_nodes,) for values in (left, right, column)):
        raise ValueError("a tree has no nodes, or some without all their values")
    inner = ~is_leaf
    children = np.concatenate([left[inner], right[inner]]).astype(np.int64)
    columns = column[inner].astype(np.int64)
    # The root has no parent and others have at most one, so no path comes back to where it was.
    if len(children) and (children.min() < 1 or children.max() >= n_nodes):
        raise ValueError(f"a tree of {n_nodes:,} nodes has a child that is not there")
    if np.bincount(children, minlength=1).max(initial=0) > 1:
        raise ValueError("a node of a tree is the child of two")
    if len(columns) and (columns.min() < 0 or columns.max() >= n_columns):
        raise ValueError(f"a tree looks at column {columns.max():,} of {n_columns:,}")

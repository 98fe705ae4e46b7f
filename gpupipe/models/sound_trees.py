"""Trees that were read from a file: libraries follow their numbers without looking, so these are looked at first.

scikit-learn and XGBoost take the children and the column of a node for positions in memory. A crafted file would have
them read anywhere, or walk for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe.backends.base import Array


FORESTS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")


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


def check_trees(estimator: Any, n_columns: int) -> None:
    """Verify every tree inside a scikit-learn estimator, wherever it is kept.

    Estimators look at the width of their rows before they use a tree, except for the trees of a forest: the forest
    looks once for all.

    Parameters
    ----------
    estimator : object
    n_columns : int
        Of the model; a part of a pipeline may take another number, and says so itself.

    Raises
    ------
    ValueError
        If one is not sound.
    """
    for found, owner in _parts(estimator):
        name, width = type(found).__name__, _width(owner, n_columns)
        if name == "Tree":
            leaf = found.children_left == -1  # scikit-learn's own sign of a leaf
            check_nodes(found.children_left, found.children_right, found.feature, leaf, width)
        elif name == "TreePredictor":
            _check_predictor(found, owner, width)
        elif name in ("KDTree", "BallTree"):
            _check_neighbours(found, width)
        elif name in FORESTS:
            _check_forest(found, n_columns)


def _width(estimator: Any, n_columns: int) -> int:
    """Return how many columns an estimator takes: it refuses rows of another width."""
    width = getattr(estimator, "n_features_in_", n_columns)
    if type(width) is not int or width < 1:
        raise ValueError(f"{type(estimator).__name__} takes {width!r:.20} columns")
    return width


def _check_forest(forest: Any, n_columns: int) -> None:
    width = _width(forest, n_columns)
    for tree in getattr(forest, "estimators_", ()):
        if _width(tree, n_columns) != width:
            raise ValueError(f"a forest that takes {width:,} columns has a tree that takes another number")


def _parts(estimator: Any) -> Iterator[tuple[Any, Any]]:
    """Yield everything that an estimator is made of, each once, with the estimator that holds it."""
    waiting, seen = [(estimator, estimator)], set()
    while waiting:
        value, owner = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value, owner
        if isinstance(value, dict):
            inner: Any = value.values()
        elif isinstance(value, list | tuple | set):
            inner = value
        elif getattr(getattr(value, "dtype", None), "hasobject", False):
            inner = value.ravel().tolist()
        else:
            owner = value if hasattr(value, "get_params") else owner
            inner = getattr(value, "__dict__", {}).values()
        waiting.extend((item, owner) for item in inner if not isinstance(item, str | int | float | bool | None))


def _check_predictor(predictor: Any, owner: Any, n_columns: int) -> None:
    """Verify a tree of histogram gradient boosting; its categories are bits in tables of their own."""
    nodes, bits = predictor.nodes, predictor.raw_left_cat_bitsets
    leaf = nodes["is_leaf"].astype(bool)
    check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], leaf, n_columns)
    split = nodes[~leaf & nodes["is_categorical"].astype(bool)]
    if len(split) == 0:
        return
    known = owner._bin_mapper.is_categorical_
    if bits.shape[1:] != (8,) or split["bitset_idx"].max() >= len(bits):
        raise ValueError("a tree looks at categories that are not there")
    if known.shape != (n_columns,) or known.dtype.kind not in "bu" or not known[split["feature_idx"]].all():
        raise ValueError("a tree takes a column of numbers for categories")


def _check_neighbours(tree: Any, n_columns: int) -> None:
    """Verify a tree of neighbours: positions of rows, and children that are implied by the number of a node."""
    import numpy as np

    data, rows, nodes, bounds = map(np.asarray, tree.get_arrays())
    n_nodes = tree.__getstate__()[6]
    ends = np.concatenate([nodes["idx_start"], nodes["idx_end"]])
    has_children = np.flatnonzero(nodes["is_leaf"] == 0)
    if data.ndim != 2 or data.shape[1] != n_columns or rows.shape != data.shape[:1]:
        raise ValueError("neighbours have other columns than the model")
    if len(nodes) == 0 or n_nodes != len(nodes) or bounds.shape[1:] != (len(nodes), n_columns):
        raise ValueError("a tree of neighbours has no nodes, or others than it says")
    if min(rows.min(), ends.min()) < 0 or rows.max() >= len(data) or ends.max() > len(data):
        raise ValueError("a tree of neighbours looks at rows that are not there")
    if 2 * has_children.max(initial=-1) + 2 >= max(len(nodes), 1):
        raise ValueError("a tree of neighbours has a child that is not there")

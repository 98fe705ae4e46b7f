"""Check of one tree of a file: XGBoost uses its numbers as positions in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpupipe.artifact.untrusted import most_bytes
from gpupipe.models.files.tree_checks import check_nodes
from gpupipe.models.xgboost.fields import INT32, array_of, fields_of, integer_of_text, integer_within
from gpupipe.units import GIB

if TYPE_CHECKING:
    from gpupipe.typing import Array

DELETED = INT32  # split index of a node removed by pruning
MAX_DEPTH = 4096  # XGBoost 3.2 recurses once per level of a tree, and a stack overflow ends the process
MAX_CATEGORIES = 1 << 24  # float32 represents every integer below it exactly
MAX_CATEGORY_BYTES = GIB  # XGBoost allocates a bit for each category up to the largest of a node
MAX_SHARED_BYTES = 8 * GIB  # the same for all models of an ensemble
TREE_ARRAYS = {
    "base_weights": ">f4", "categories": ">i4", "categories_nodes": ">i4", "categories_segments": ">i8",
    "categories_sizes": ">i8", "default_left": ">u1", "left_children": ">i4", "loss_changes": ">f4", "parents": ">i4",
    "right_children": ">i4", "split_conditions": ">f4", "split_indices": ">i4", "split_type": ">u1",
    "sum_hessian": ">f4",
}  # fmt: skip
LEAF_VECTORS = "leaf_weights"  # of trees that predict several targets: the numbers of each leaf, since XGBoost 3.2


@dataclass(frozen=True)
class TreeShape:
    """Number of columns that the trees read, of outputs, each with its own trees, and of numbers of a leaf."""

    n_columns: int
    n_groups: int
    n_targets: int


class CategoryMemory:
    """Limit on the bytes that XGBoost allocates for the categories of all trees."""

    def __init__(self, n_bytes: int, n_models: int) -> None:
        self.left = max(most_bytes(n_bytes), min(MAX_CATEGORY_BYTES, MAX_SHARED_BYTES // n_models))

    def take(self, n_bytes: int) -> None:
        self.left -= n_bytes
        if self.left < 0:
            raise ValueError("the categories of its trees need more memory than a file of its size can justify")


def read_tree(values: Any, position: int, shape: TreeShape, memory: CategoryMemory) -> dict[str, Any]:
    """Return a tree of a document, whose nodes, splits, leaves and categories have been checked.

    Raise ValueError if something is missing, unknown, or outside of its range.
    """
    n_columns, width = shape.n_columns, shape.n_targets
    arrays = TREE_ARRAYS | ({LEAF_VECTORS: ">f4"} if width > 1 else {})
    tree = fields_of(values, "a tree", {*arrays, "id", "tree_param"})
    tree |= {name: array_of(tree[name], dtype, name) for name, dtype in arrays.items()}
    n_nodes = len(tree["left_children"])
    sizes = {name: n_nodes for name in TREE_ARRAYS if not name.startswith("categories")}
    sizes["base_weights"] *= width
    if any(len(tree[name]) != size for name, size in sizes.items()):
        raise ValueError("a tree has arrays of different lengths")
    integer_within(tree["id"], position, position, "the id of a tree")
    needed = ("num_deleted", "num_feature", "num_nodes", "size_leaf_vector")
    params = fields_of(tree["tree_param"], "tree_param", needed)
    integer_of_text(params["num_nodes"], n_nodes, n_nodes, "num_nodes")
    integer_of_text(params["size_leaf_vector"], *((width, width) if width > 1 else (0, 1)), "size_leaf_vector")
    integer_of_text(params["num_feature"], n_columns, n_columns, "num_feature of a tree")
    n_deleted = _check_links(tree, n_columns, width)
    integer_of_text(params["num_deleted"], n_deleted, n_deleted, "num_deleted")
    _check_categories(tree, memory)
    return {**tree, "tree_param": params}


def _check_links(tree: Mapping[str, Array], n_columns: int, width: int) -> int:
    """Verify children, parents, columns and leaves of a tree; return the number of nodes removed by pruning.

    With several numbers in a leaf, the right child of a leaf is the position of its numbers.
    """
    import numpy as np

    left, right, parents, column = (
        tree[name].astype(np.int64) for name in ("left_children", "right_children", "parents", "split_indices")
    )
    leaf = left == -1
    default_left = tree["default_left"]
    n_nodes = len(left)
    check_nodes(left, right, column, leaf, n_columns)
    deleted = (column == DELETED) & (default_left == 1)
    inner = np.flatnonzero(~leaf)
    reached = np.zeros(n_nodes, bool)
    reached[0] = reached[left[inner]] = reached[right[inner]] = True
    if width > 1:
        _check_leaf_vectors(tree[LEAF_VECTORS], right[leaf], width)
        right = np.where(leaf, -1, right)
    if (right[leaf] != -1).any() or (reached == deleted).any() or (~leaf & deleted).any():
        raise ValueError("a tree has a leaf with children, or a node without a parent")
    if (right[inner] != left[inner] + 1).any():  # XGBoost goes to the neighbor of the left child
        raise ValueError("the children of a node are not neighbors")
    if parents[0] not in (-1, INT32) or ((parents[1:] < 0) | (parents[1:] >= n_nodes)).any():
        raise ValueError("a tree has a parent that does not exist")
    if (parents[left[inner]] != inner).any() or (parents[right[inner]] != inner).any():
        raise ValueError("the parents of a tree do not match its children")
    if ((column < 0) | (column >= n_columns))[~deleted].any() or (default_left > 1).any():
        raise ValueError("a tree reads a column that does not exist, or has no side for missing values")
    if not np.isfinite(tree["split_conditions"][leaf & ~deleted]).all():
        raise ValueError("a tree has a leaf whose value is not finite")
    level, depth = np.zeros(1, np.int64), 0
    while len(level := level[~leaf[level]]):
        level, depth = np.concatenate([left[level], right[level]]), depth + 1
        if depth > MAX_DEPTH:
            raise ValueError(f"a tree is deeper than {MAX_DEPTH:,} levels")
    return int(deleted.sum())


def _check_leaf_vectors(vectors: Array, positions: Array, width: int) -> None:
    import numpy as np

    if len(vectors) != len(positions) * width or sorted(positions.tolist()) != list(range(len(positions))):
        raise ValueError("the numbers of a tree's leaves do not match its leaves")
    if not np.isfinite(vectors).all():
        raise ValueError("a tree has a leaf whose value is not finite")


def _check_categories(tree: Mapping[str, Array], memory: CategoryMemory) -> None:
    import numpy as np

    names = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    categories, nodes, starts, sizes = (tree[name].astype(np.int64) for name in names)
    if (tree["split_type"] > 1).any() or not np.array_equal(np.flatnonzero(tree["split_type"]), nodes):
        raise ValueError("the categories of a tree do not match its categorical splits")
    if not len(nodes) == len(starts) == len(sizes):
        raise ValueError("a tree lacks the categories of a node")
    if len(nodes) == 0:
        return
    if sizes.min() < 1 or sizes.max() > len(categories) or sizes.sum() != len(categories):
        raise ValueError("a tree splits by categories that do not exist")
    if not np.array_equal(starts, np.cumsum(sizes) - sizes):
        raise ValueError("the categories of a tree's nodes overlap")
    if categories.min() < 0 or categories.max() >= MAX_CATEGORIES:
        raise ValueError(f"expected categories in [0, {MAX_CATEGORIES:,}); a tree has {categories.max():,}")
    memory.take(int((np.maximum.reduceat(categories, starts) // 32 + 1).sum()) * 4)

"""Predictions of scikit-learn's forests with the trees added in their order, for batches and for single rows."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

from gpupipe.models.fitted.row_blocks import predict_in_blocks
from gpupipe.models.fitted.tree_sums import tree_sums

if TYPE_CHECKING:
    from gpupipe.models.contributions.base import Scale
    from gpupipe.models.contributions.trees import ExplainedTrees
    from gpupipe.typing import Array, HostArray
    from gpupipe_kernels.engines import HostEngine
    from gpupipe_kernels.rows.trees import PackedTrees

FORESTS = ("ExtraTreesClassifier", "ExtraTreesRegressor", "RandomForestClassifier", "RandomForestRegressor")


def predict_in_order(forest: Any, method: str, X: Array) -> Array:
    """Return the result of `method` of a forest, with its threads on blocks of rows.

    scikit-learn's threads predict one tree each and add it when they finish, so that the last bits of a sum can differ
    from run to run.
    """
    from joblib import effective_n_jobs

    in_order = copy(forest)
    in_order.n_jobs = 1
    return predict_in_blocks(getattr(in_order, method), X, effective_n_jobs(forest.n_jobs))


def forest_means(forest: Any, engine: HostEngine) -> Callable[[HostArray], HostArray]:
    """Return the function from rows, float32, shape (n, d), to means, float64, shape (n, n_classes) or (n, 1).

    A row that scikit-learn refuses, with infinity or unsupported NaN, is refused with its message.
    """
    import numpy as np

    n_trees, n_outputs = len(forest.estimators_), int(getattr(forest, "n_classes_", 1))
    sums = tree_sums(pack_forest(forest), np.zeros(n_outputs), engine)
    takes_missing = forest.estimators_[0]._support_missing_values(np.zeros((1, forest.n_features_in_), np.float32))

    def means(X: HostArray) -> HostArray:
        if not np.isfinite(X).all() and not (takes_missing and not np.isinf(X).any()):
            forest._validate_X_predict(X)
        out = sums(X)
        out /= n_trees
        return out

    return means


def explained_forest(forest: Any, is_classifier: bool) -> ExplainedTrees:
    """Return the trees of a forest; the margins are means of leaves: probabilities, or values."""
    import numpy as np

    from gpupipe.models.contributions.trees import ExplainedTrees

    packed = pack_forest(forest)
    if is_classifier and packed.values.shape[1] == 2:
        packed = packed._replace(values=np.ascontiguousarray(packed.values[:, 1:]))
    scale: Scale = "probability" if is_classifier else "score"
    return ExplainedTrees(packed, np.zeros(packed.values.shape[1]), scale, 1.0 / len(forest.estimators_))


def pack_forest(forest: Any) -> PackedTrees:
    """Return the trees of a forest; the values of a leaf are the shares of the classes, or one number."""
    import numpy as np

    from gpupipe_kernels.rows.trees import LEFT, RIGHT, CategoryWords, TreeArrays, at_most, join_nodes, pack_trees

    trees = [estimator.tree_ for estimator in forest.estimators_]
    shifts = np.cumsum([0, *(tree.node_count for tree in trees)])
    n_outputs = int(getattr(forest, "n_classes_", 1))
    threshold = join_nodes([tree.threshold for tree in trees])
    missing = join_nodes([tree.missing_go_to_left for tree in trees])
    arrays = TreeArrays(
        left=join_nodes([tree.children_left for tree in trees], shifts[:-1]),
        right=join_nodes([tree.children_right for tree in trees], shifts[:-1]),
        column=join_nodes([tree.feature for tree in trees]),
        threshold=at_most(threshold),
        missing=np.where(missing != 0, LEFT, RIGHT),
        words=np.zeros(len(threshold), np.int64),
        value=join_nodes([tree.value[:, 0, :n_outputs] for tree in trees]),
        cover=join_nodes([tree.weighted_n_node_samples for tree in trees]),
    )
    outputs = np.zeros(len(trees), np.int64)
    return pack_trees(arrays, shifts[:-1], outputs, CategoryWords(is_exact=True), forest.n_features_in_)

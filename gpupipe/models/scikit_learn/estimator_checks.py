"""Checks of scikit-learn estimators from untrusted files, before they predict.

Most of scikit-learn predicts with NumPy, which checks shapes and indices. Compiled code does not. The classes listed
here pass arrays of the file to such code, or use numbers of the file as counts of threads, columns or steps. Checked
against scikit-learn 1.8 and 1.9.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gpupipe.models.files.tree_checks import check_nodes

if TYPE_CHECKING:
    from gpupipe.typing import Array

METRICS = frozenset(
    {
        "braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "hamming", "l1", "l2",
        "manhattan", "minkowski", "nan_euclidean", "p", "sqeuclidean",
    }
)  # fmt: skip
KERNELS = frozenset({"additive_chi2", "chi2", "cosine", "laplacian", "linear", "poly", "polynomial", "rbf", "sigmoid"})
STACK_METHODS = frozenset({"decision_function", "predict", "predict_proba"})
PREPROCESSORS = frozenset({"FunctionTransformer", "NoneType", "OrdinalEncoder", "str"})
MAX_POLYNOMIALS = 1 << 20  # output columns of PolynomialFeatures
MAX_DEGREE = 1000
BITS = 256  # size of the category bitset of histogram gradient boosting

Check = Callable[[Any], None]


def check_estimators(estimator: Any) -> None:
    """Verify a fitted scikit-learn estimator and every estimator inside it.

    Raise ValueError if an estimator has state that is unsafe for the compiled code of scikit-learn.
    """
    for found in _estimators(estimator):
        fitted, check = CHECKS.get(type(found).__name__, ("", None))
        if check is not None and fitted in vars(found):  # unfitted estimators, such as templates, do not predict
            check(found)


def prepare_estimators(estimator: Any) -> None:
    """Prepare an estimator from a file to predict on this machine: threads, verbosity and neighbor trees.

    Neighbor trees are rebuilt from their rows, as scikit-learn built them in fitting, so that no position in the file
    is followed. `estimator` has passed `check_estimators`; it is modified in place.
    """
    n_cores = os.cpu_count() or 1
    for found in _estimators(estimator):
        state = vars(found)
        for name in ("n_jobs", "_n_threads", "n_threads"):
            if name in state:
                value = state[name]
                state[name] = min(value, n_cores) if type(value) is int else 1 if name == "_n_threads" else None
        if "verbose" in state:
            state["verbose"] = 0
        if type(found).__name__ in NEIGHBORS and "_fit_X" in state:
            found._tree = _neighbor_tree(found)


def _estimators(root: Any) -> Iterator[Any]:
    """Yield every object inside `root` that has parameters, each once.

    Raise ValueError if a decision tree or a bin mapper is outside an estimator that checks its rows.
    """
    waiting, seen = [root], set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if hasattr(value, "get_params"):
            yield value
        for name, item in _items(value):
            kind = type(item).__name__
            if kind in ("Tree", "_BinMapper") and (type(value).__name__, name) not in PARTS:
                raise ValueError(f"a {type(value).__name__} must not contain a {kind}")
            if not isinstance(item, str | int | float | bool | None):
                waiting.append(item)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the items or attributes of a value, with their names ("" for items of a list)."""
    import numpy as np

    if isinstance(value, dict):
        yield from ((str(name), item) for name, item in value.items())
    elif isinstance(value, list | tuple | set):
        yield from (("", item) for item in value)
    elif isinstance(value, np.ndarray):
        yield from (("", item) for item in (value.ravel().tolist() if value.dtype.hasobject else ()))
    else:
        yield from getattr(value, "__dict__", {}).items()


def width_of(estimator: Any) -> int:
    """Return the number of columns of an estimator; it raises an error for rows of another width.

    Raise ValueError if the number is missing, in which case scikit-learn would accept rows of any width.
    """
    width = getattr(estimator, "n_features_in_", None)
    if type(width) is not int or width < 1:
        raise ValueError(f"a {type(estimator).__name__} has the invalid number of columns {width!r:.20}")
    return width


def _check_tree(estimator: Any) -> None:
    tree, width = estimator.tree_, width_of(estimator)
    if type(tree).__name__ != "Tree" or tree.n_features != width:
        raise ValueError(f"a {type(estimator).__name__} of {width:,} columns has a tree of another number of columns")
    if tree.n_outputs != 1 or estimator.n_outputs_ != 1:
        raise ValueError(f"a {type(estimator).__name__} has {tree.n_outputs:,} outputs; expected 1")
    left = tree.children_left  # -1 marks a leaf
    check_nodes(left, tree.children_right, tree.feature, left == -1, width)


def _check_forest(forest: Any) -> None:
    """Verify that the trees of a forest have its number of columns: it checks the width of rows only once."""
    width = width_of(forest)
    for tree in forest.estimators_:
        if type(tree).__name__ not in TREES:
            raise ValueError(f"a forest has a {type(tree).__name__} among its trees")
        if width_of(tree) != width:
            raise ValueError(f"a forest of {width:,} columns has a tree of another number of columns")
    if forest.n_outputs_ != 1 or (hasattr(forest, "classes_") and forest.n_classes_ != len(forest.classes_)):
        raise ValueError("a forest has an inconsistent number of outputs")


def _check_boosting(boosting: Any) -> None:
    width = width_of(boosting)
    mapper = boosting._bin_mapper
    n_trees = boosting.n_trees_per_iteration_
    if hasattr(boosting, "_in_fit") or type(mapper).__name__ != "_BinMapper":
        raise ValueError("histogram gradient boosting is not in the state of a fitted estimator")
    is_categorical, thresholds = mapper.is_categorical_, mapper.bin_thresholds_
    if is_categorical.shape != (width,) or is_categorical.dtype.kind not in "bu" or len(thresholds) != width:
        raise ValueError(f"histogram gradient boosting of {width:,} columns has bins of another number of columns")
    for column in is_categorical.nonzero()[0]:
        values = thresholds[column]
        if not ((values >= 0) & (values < BITS) & (values == values // 1)).all():
            raise ValueError(f"histogram gradient boosting has a category that is not an integer in [0, {BITS})")
    if type(n_trees) is not int or n_trees < 1 or boosting._baseline_prediction.size != n_trees:
        raise ValueError(f"histogram gradient boosting has an inconsistent number of outputs, {n_trees!r:.20}")
    for trees in boosting._predictors:
        if len(trees) != n_trees:
            raise ValueError(f"a round of histogram gradient boosting has {len(trees):,} trees; expected {n_trees:,}")
        for tree in trees:
            _check_predictor(tree, is_categorical, width)
    _check_preprocessor(boosting._preprocessor, width)


def _check_predictor(predictor: Any, is_categorical: Array, width: int) -> None:
    """Verify a tree of histogram gradient boosting; its categories are bits in separate tables."""
    nodes, bits = predictor.nodes, predictor.raw_left_cat_bitsets
    leaf = nodes["is_leaf"].astype(bool)
    check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], leaf, width)
    split = nodes[~leaf & nodes["is_categorical"].astype(bool)]
    if len(split) == 0:
        return
    if bits.shape[1:] != (8,) or split["bitset_idx"].max() >= len(bits):
        raise ValueError("a tree splits by categories that do not exist")
    if not is_categorical[split["feature_idx"]].all():
        raise ValueError("a tree splits a numeric column by categories")


def _check_preprocessor(preprocessor: Any, width: int) -> None:
    """Verify that the preprocessor returns the number of columns that the trees read, which is not checked later."""
    import numpy as np

    if preprocessor is None:
        return
    parts = {type(part[1]).__name__ for part in preprocessor.transformers_}
    if type(preprocessor).__name__ != "ColumnTransformer" or width_of(preprocessor) != width or parts - PREPROCESSORS:
        raise ValueError("histogram gradient boosting has an unknown preprocessor")
    prepared = preprocessor.transform(np.zeros((2, width), np.float32))
    if type(prepared) is not np.ndarray or prepared.shape != (2, width):
        raise ValueError(f"the preprocessor of histogram gradient boosting does not return {width:,} columns")


def _check_neighbors(neighbors: Any) -> None:
    import numpy as np

    width = width_of(neighbors)
    rows = neighbors._fit_X
    y = neighbors._y
    n_rows = neighbors.n_samples_fit_
    if rows.ndim != 2 or rows.dtype.kind != "f" or rows.shape != (n_rows, width) or y.shape[:1] != (n_rows,):
        raise ValueError(
            f"nearest neighbors of {width:,} columns have rows of shape {rows.shape} and targets of shape {y.shape}"
        )
    n_neighbors = neighbors.n_neighbors
    if type(n_neighbors) is not int or not 1 <= n_neighbors <= n_rows or y.ndim != 1:
        raise ValueError(f"expected 1 to {n_rows:,} neighbors; got {n_neighbors!r:.20}")
    if type(neighbors).__name__ == "KNeighborsClassifier" and (
        neighbors.outputs_2d_ is not False or y.dtype != np.intp or y.min() < 0 or y.max() >= len(neighbors.classes_)
    ):
        raise ValueError("nearest neighbors have class codes out of range")
    if neighbors._fit_method not in ("ball_tree", "brute", "kd_tree"):
        raise ValueError(f"nearest neighbors have the unknown search method {neighbors._fit_method!r:.20}")
    if neighbors.weights not in ("distance", "uniform", None):
        raise ValueError("nearest neighbors are weighted by a function")
    _check_metric(neighbors, width)


def _check_metric(neighbors: Any, width: int) -> None:
    metric, parameters = neighbors.effective_metric_, neighbors.effective_metric_params_
    if not {metric, neighbors.metric} <= METRICS or not set(parameters) <= {"p", "w"}:
        raise ValueError(f"nearest neighbors have the distance {metric!r:.40} with parameters that are not allowed")
    power, weights = parameters.get("p", 2), parameters.get("w")
    if type(power) not in (int, float) or not 0 < power < math.inf:
        raise ValueError(f"expected a positive power of the distance; got {power!r:.20}")
    if weights is not None and (weights.shape != (width,) or weights.dtype.kind != "f" or not (weights >= 0).all()):
        raise ValueError(f"a distance of {width:,} columns has {weights.size:,} weights")


def _neighbor_tree(neighbors: Any) -> Any:
    from sklearn.neighbors import BallTree, KDTree

    kind = {"ball_tree": BallTree, "kd_tree": KDTree}.get(neighbors._fit_method)
    if kind is None:
        return None
    metric, parameters = neighbors.effective_metric_, neighbors.effective_metric_params_
    return kind(neighbors._fit_X, neighbors.leaf_size, metric=metric, **parameters)


def _check_centers(clusters: Any) -> None:
    centers, width = clusters.cluster_centers_, width_of(clusters)
    if centers.ndim != 2 or centers.shape[1] != width or centers.dtype.kind != "f" or len(centers) < 1:
        raise ValueError(f"clusters of {width:,} columns have centers of shape {centers.shape}")


def _check_polynomials(polynomials: Any) -> None:
    """Verify that the number of output columns matches the degree and is within the limit."""
    width, most = width_of(polynomials), polynomials._max_degree
    if type(most) is not int or not 0 <= most <= MAX_DEGREE or polynomials.interaction_only not in (False, True):
        raise ValueError(f"expected a polynomial degree from 0 to {MAX_DEGREE:,}; got {most!r:.20}")
    made = polynomials._num_combinations(
        n_features=width,
        min_degree=0,
        max_degree=most,
        interaction_only=polynomials.interaction_only,
        include_bias=polynomials.include_bias,
    )
    if polynomials._n_out_full != made or not 0 < polynomials.n_output_features_ <= made <= MAX_POLYNOMIALS:
        raise ValueError(
            f"polynomials of {width:,} columns and degree {most:,} have {made:,} columns; the limit is "
            f"{MAX_POLYNOMIALS:,}"
        )


def _check_stack(stack: Any) -> None:
    """Verify the names of the methods that a stack calls."""
    if not set(stack.stack_method_) <= STACK_METHODS:
        raise ValueError(f"a stack calls other methods than {', '.join(sorted(STACK_METHODS))}")


def _check_function(transformer: Any) -> None:
    for function in (transformer.func, transformer.inverse_func):
        function = getattr(function, "func", function)
        if function is not None and getattr(function, "__name__", "") != "check_array":
            raise ValueError("a FunctionTransformer calls another function than check_array")


def _check_kernel(estimator: Any) -> None:
    if estimator.kernel not in KERNELS:
        raise ValueError(f"a {type(estimator).__name__} has the kernel {estimator.kernel!r:.40}")


TREES = ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier", "ExtraTreeRegressor")
FORESTS = ("ExtraTreesClassifier", "ExtraTreesRegressor", "RandomForestClassifier", "RandomForestRegressor")
BOOSTING = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")
NEIGHBORS = ("KNeighborsClassifier", "KNeighborsRegressor")
PARTS = frozenset({*((name, "tree_") for name in TREES), *((name, "_bin_mapper") for name in BOOSTING)})
# Class name to the attribute that marks a fitted estimator, and the check of its state.
CHECKS: dict[str, tuple[str, Check]] = {
    **dict.fromkeys(TREES, ("tree_", _check_tree)),
    **dict.fromkeys(FORESTS, ("estimators_", _check_forest)),
    **dict.fromkeys(BOOSTING, ("_predictors", _check_boosting)),
    **dict.fromkeys(NEIGHBORS, ("_fit_X", _check_neighbors)),
    **dict.fromkeys(("StackingClassifier", "StackingRegressor"), ("stack_method_", _check_stack)),
    **dict.fromkeys(("KernelRidge", "Nystroem"), ("kernel", _check_kernel)),
    "FunctionTransformer": ("func", _check_function),
    "KMeans": ("cluster_centers_", _check_centers),
    "PolynomialFeatures": ("_max_degree", _check_polynomials),
}

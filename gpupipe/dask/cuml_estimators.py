"""Estimators of cuml.dask, by the scikit-learn class that they replace.

The table is that of one GPU (`gpupipe.backends.gpu.estimators`) with the changes of cuml.dask, which passes keyword
arguments on unchecked and ignores those that only one GPU supports. Only the parameters in a row are passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupipe.backends.gpu import estimators
from gpupipe.backends.gpu.translation import EstimatorRefusal, GpuEstimator, ParameterRule

OLDEST_FOREST = "26.10"  # earlier releases grow the trees of a worker from its own rows only


def _row(name: str, module: str, fixed: Mapping[str, Any], dtype: str, **params: ParameterRule) -> GpuEstimator:
    """Return the row of one GPU, adapted to cuml.dask, which sets the output type itself."""
    alone = estimators.ESTIMATORS[name]
    return replace(
        alone, path=f"cuml.dask.{module}:{name}", params={**alone.params, **params}, fixed=fixed, dtype=dtype
    )


_COPIED = ParameterRule(why="it always centres a copy")
_UNWEIGHTED = ParameterRule(allowed=(None,), why="it has no sample weights")
_DIRECT = ParameterRule(why="it solves directly, whatever the solver")
# The defaults of coordinate descent differ from scikit-learn's, and its Lasso does not set `l1_ratio`.
_DESCENT = {
    "selection": ParameterRule(allowed=("cyclic",), why="its random order has no seed", nearest="cyclic"),
    "max_iter": ParameterRule("max_iter"),
}

# scikit-learn's class name → its replacement. float64: train on a copy, which some estimators centre in place.
ESTIMATORS: dict[str, GpuEstimator] = {
    "LogisticRegression": _row(
        "LogisticRegression", "linear_model", {"penalty": "elasticnet", "lbfgs_memory": 10}, "float32"
    ),
    "Ridge": _row(
        "Ridge", "linear_model", {"solver": "eig"}, "float64",
        solver=ParameterRule(
            allowed=("auto", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga"),
            why="lbfgs is for sign constraints, which it does not support", nearest="auto",
        ),
        max_iter=_DIRECT, tol=_DIRECT, copy_X=_COPIED,
    ),
    "Lasso": _row("Lasso", "linear_model", {"l1_ratio": 1.0}, "float64", **_DESCENT),
    "ElasticNet": _row("ElasticNet", "linear_model", {}, "float64", **_DESCENT),
    "RandomForestClassifier": _row(
        "RandomForestClassifier", "ensemble", {"n_bins": 128}, "float32", class_weight=_UNWEIGHTED
    ),
    "RandomForestRegressor": _row("RandomForestRegressor", "ensemble", {"n_bins": 128}, "float32"),
    "KMeans": _row(
        "KMeans", "cluster", {}, "float32", init=ParameterRule("init", values=(("k-means++", "scalable-k-means++"),))
    ),
    "PCA": _row("PCA", "decomposition", {}, "float64"),
}  # fmt: skip

_NEIGHBORS = EstimatorRefusal(
    "cuml.dask keeps the neighbours on the workers, so there is no model to export",
    "use the model random_forest or xgboost",
)
# scikit-learn's class name → the reason that cuml.dask cannot replace it
NO_TWIN: dict[str, EstimatorRefusal] = {
    **estimators.NO_TWIN,
    "LinearRegression": EstimatorRefusal(
        "cuml.dask solves least squares by eigenvalues of the covariance only, which is unstable on one-hot columns",
        "use the model ridge with a small alpha",
    ),
    "KNeighborsClassifier": _NEIGHBORS,
    "KNeighborsRegressor": _NEIGHBORS,
    "GaussianNB": EstimatorRefusal("cuml.dask has no Gaussian naive Bayes", "use the model logistic_regression"),
}


def refusal(name: str, params: Mapping[str, Any], shape: tuple[int, int], weighted: bool) -> EstimatorRefusal | None:
    """Return the reason that cuml.dask cannot train an estimator, or None if it can.

    `name` is the class name of scikit-learn, `params` are its keyword arguments, `shape` is that of the matrix, and
    `weighted` is whether rows have weights.
    """
    if name in NO_TWIN:
        return NO_TWIN[name]
    found = ESTIMATORS[name].refusals(params)
    if weighted:
        found.append(
            EstimatorRefusal(f"cuml.dask's {name} has no sample weights", "remove class_weight and source.weight")
        )
    if name == "Ridge" and shape[1] == 1:
        found.append(EstimatorRefusal("cuml.dask's Ridge needs at least 2 features", "add a feature"))
    if not found:
        return None
    return EstimatorRefusal("; ".join(one.what for one in found), "; ".join(one.fix for one in found))

"""Estimators that the GPUs of a cluster train together: which class of cuml.dask stands for one of scikit-learn's.

The table is that of one GPU (`gpupipe.backends.gpu.estimators`) with what cuml.dask changes. It hands on its keyword
arguments without a look at them, and forgets those that only one GPU honours: what is not in a row is never passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpupipe.backends.gpu import estimators
from gpupipe.backends.gpu.translation import EstimatorRefusal, GpuEstimator, ParameterRule

OLDEST_FOREST = "26.10"  # before, each worker grew its share of the trees on its own rows alone


def _row(name: str, module: str, fixed: Mapping[str, Any], dtype: str, **params: ParameterRule) -> GpuEstimator:
    """Return the row of one GPU as cuml.dask has it; it says itself what results are made of."""
    alone = estimators.ESTIMATORS[name]
    return replace(
        alone, path=f"cuml.dask.{module}:{name}", params={**alone.params, **params}, fixed=fixed, dtype=dtype
    )


_COPIED = ParameterRule(why="it centres a copy of its own")
_UNWEIGHTED = ParameterRule(allowed=(None,), why="it takes no weights of rows")
_DIRECT = ParameterRule(why="it solves directly, whatever the solver")
# Coordinate descent's own defaults are not scikit-learn's, and its Lasso does not even set `l1_ratio`.
_DESCENT = {
    "selection": ParameterRule(allowed=("cyclic",), why="its random order cannot be seeded", nearest="cyclic"),
    "max_iter": ParameterRule("max_iter"),
}

# scikit-learn's class name → what stands for it. float64: of a copy, which those that say so centre in place.
ESTIMATORS: dict[str, GpuEstimator] = {
    "LogisticRegression": _row(
        "LogisticRegression", "linear_model", {"penalty": "elasticnet", "lbfgs_memory": 10}, "float32"
    ),
    "Ridge": _row(
        "Ridge", "linear_model", {"solver": "eig"}, "float64",
        solver=ParameterRule(
            allowed=("auto", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga"),
            why="lbfgs is there for sign constraints, which it has not", nearest="auto",
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
    "cuml.dask leaves the rows that are a neighbour on the workers: there is no model of it that could be kept",
    "use the model random_forest or xgboost",
)
# scikit-learn's class name → why cuml.dask cannot stand for it
NO_TWIN: dict[str, EstimatorRefusal] = {
    **estimators.NO_TWIN,
    "LinearRegression": EstimatorRefusal(
        "cuml.dask solves least squares by eigenvalues of the covariance alone, which is not stable on a full one-hot",
        "use the model ridge with a small alpha",
    ),
    "KNeighborsClassifier": _NEIGHBORS,
    "KNeighborsRegressor": _NEIGHBORS,
    "GaussianNB": EstimatorRefusal("cuml.dask has no Gaussian naive Bayes", "use the model logistic_regression"),
}


def refusal(name: str, params: Mapping[str, Any], shape: tuple[int, int], weighted: bool) -> EstimatorRefusal | None:
    """Return why cuml.dask cannot train an estimator, or None where it can.

    Parameters
    ----------
    name : str
        The class name of scikit-learn.
    params : mapping
        Keyword arguments under scikit-learn's names.
    shape : (int, int)
        Of the matrix.
    weighted : bool
        Whether rows have weights.
    """
    if name in NO_TWIN:
        return NO_TWIN[name]
    found = ESTIMATORS[name].refusals(params)
    if weighted:
        found.append(EstimatorRefusal(f"cuml.dask's {name} takes no weights of rows", "leave out class_weight"))
    if name == "Ridge" and shape[1] == 1:
        found.append(EstimatorRefusal("cuml.dask's Ridge needs two columns at least", "give the model another feature"))
    if not found:
        return None
    return EstimatorRefusal("; ".join(one.what for one in found), "; ".join(one.fix for one in found))

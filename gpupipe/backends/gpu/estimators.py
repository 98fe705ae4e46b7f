"""Estimators on a GPU: the cuML, XGBoost or gpupipe class for each scikit-learn class, parameter by parameter.

The table is data: no GPU library is imported before `create`. Unsupported values are refused with the reason and the
nearest supported value; parameters that do not change the result are dropped, with the reason in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from gpupipe.backends.gpu.translation import EstimatorRefusal, GpuEstimator, ParameterRule
from gpupipe.backends.probe import INSTALL_RAPIDS, lacks_nothing
from gpupipe.errors import ConfigError, DeviceError

__all__ = ["ESTIMATORS", "NO_TWIN", "create", "missing_library", "refusal"]


def _same(names: str) -> dict[str, ParameterRule]:
    return {name: ParameterRule(name) for name in names.split()}


def _only(value: Any, why: str, nearest: str = "") -> ParameterRule:
    return ParameterRule(allowed=(value,), why=why, nearest=nearest)


# Results stay on the device for any input.
_CUML = {"output_type": "cupy"}
_DIRECT = ParameterRule(why="it is deterministic")
_THREADS = ParameterRule(why="the device has its own parallelism")
_NON_NEGATIVE = _only(False, "no solver supports sign constraints", "false")

_LOGISTIC = {
    **_same("C l1_ratio tol fit_intercept max_iter"),
    "solver": ParameterRule(
        allowed=("auto", "lbfgs", "newton-cg", "newton-cholesky", "sag", "saga"),
        why="they minimise the same loss, as its quasi-Newton solver does; liblinear would penalise the intercept too",
        nearest="lbfgs",
    ),
    "dual": _only(False, "it is a formulation of liblinear", "false"),
    "intercept_scaling": _only(1, "it is a setting of liblinear", "1"),
    "random_state": _DIRECT,
    "n_jobs": _THREADS,
}
_LINEAR = {
    **_same("fit_intercept"),
    "copy_X": ParameterRule(why="it never writes to the matrix"),
    "tol": _only(1e-10, "it drops directions by a fixed threshold", "1e-10"),
    "positive": _NON_NEGATIVE,
    "n_jobs": _THREADS,
}
_RIDGE = {
    **_same("alpha fit_intercept copy_X max_iter tol"),
    "solver": ParameterRule(
        "solver",
        values=(("cholesky", "auto"), ("lsqr", "lsmr"), ("sparse_cg", "lsmr"), ("sag", "auto"), ("saga", "auto")),
        allowed=("auto", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga"),
        why="lbfgs is for sign constraints, which it does not support",
        nearest="auto",
    ),
    "positive": _NON_NEGATIVE,
    "random_state": _DIRECT,
    "n_jobs": _THREADS,
}
_LASSO = {
    **_same("alpha fit_intercept max_iter"),
    "tol": ParameterRule("tol", scale=10.0),  # equivalent accuracy in cuML's measure, as cuml.accel translates it
    "precompute": ParameterRule(why="a precomputed Gram matrix does not change the result"),
    "selection": ParameterRule("selection", allowed=("cyclic",), why="its random order has no seed", nearest="cyclic"),
    "positive": _NON_NEGATIVE,
    "random_state": ParameterRule(why="only the random order of columns uses it"),
    "copy_X": ParameterRule(why="it never writes to the matrix"),
    "n_jobs": _THREADS,
}
_FOREST = {
    **_same("n_estimators max_depth min_samples_split min_samples_leaf max_features bootstrap random_state"),
    "criterion": ParameterRule(
        "split_criterion",
        values=(("log_loss", "entropy"), ("squared_error", "mse")),
        allowed=("gini", "entropy", "log_loss", "squared_error", "poisson"),
        why="it has no trees for absolute errors",
        nearest="squared_error",
    ),
    "max_leaf_nodes": ParameterRule(
        "max_leaves",
        values=((None, -1),),
        note="cuML takes max_leaf_nodes as a soft limit and does not grow the best leaf first",
    ),
    "max_samples": ParameterRule(
        "max_samples",
        values=((None, 1.0),),
        refused_types=(int,),
        why="it takes a fraction of the rows, not their number",
        nearest="a fraction between 0 and 1",
    ),
    "min_weight_fraction_leaf": _only(0.0, "its leaves have no weights", "0"),
    "min_impurity_decrease": _only(
        0.0, "it measures the decrease within the node, not relative to the whole tree", "0"
    ),
    "ccp_alpha": _only(0.0, "it does not prune", "0"),
    "monotonic_cst": _only(None, "it does not support constraints"),
    "n_jobs": _THREADS,
}
_FOREST_NOTES = ("cuML's random forest splits a column at up to 128 quantiles, scikit-learn's at any value",)
_NEIGHBORS = {
    **_same("n_neighbors weights p"),
    "metric": ParameterRule(
        "metric",
        allowed=("minkowski", "euclidean", "manhattan", "chebyshev", "cosine", "canberra"),
        why="it does not support this distance",
        nearest="minkowski",
    ),
    "algorithm": ParameterRule("algorithm", values=tuple((name, "brute") for name in ("auto", "ball_tree", "kd_tree"))),
    "leaf_size": ParameterRule(why="it compares all pairs without a tree, and finds the same neighbours"),
    "n_jobs": _THREADS,
}
_BOOSTING = _same(
    "n_estimators max_depth max_leaves max_bin grow_policy learning_rate objective quantile_alpha booster"
    " tree_method gamma min_child_weight max_delta_step subsample colsample_bytree colsample_bylevel colsample_bynode"
    " reg_alpha reg_lambda scale_pos_weight base_score num_parallel_tree monotone_constraints interaction_constraints"
    " max_cat_to_onehot max_cat_threshold multi_strategy eval_metric early_stopping_rounds enable_categorical"
    " feature_types random_state n_jobs"
)

# scikit-learn's (or XGBoost's) class name → its replacement on the device
ESTIMATORS: dict[str, GpuEstimator] = {
    "LogisticRegression": GpuEstimator(
        "cuml.linear_model:LogisticRegression",
        _LOGISTIC,
        # Pure L1 and L2 are limits of elasticnet; SciPy's lbfgs stores 10 steps, cuML's default is 5.
        {**_CUML, "penalty": "elasticnet", "lbfgs_memory": 10},
        float64_solvers=("newton-cholesky",),
        notes=("cuML solves logistic regression with a quasi-Newton method for every solver",),
    ),
    "LinearRegression": GpuEstimator(
        "gpupipe.backends.gpu.least_squares:LeastSquares", _LINEAR, dtype="float64", by_blocks=True,
        notes=("least squares on the GPU treats scaled columns as collinear below a relative difference of 1e-6",),
        needs="cublas",
    ),
    "Ridge": GpuEstimator("cuml.linear_model:Ridge", _RIDGE, _CUML, dtype="float64"),
    "Lasso": GpuEstimator("cuml.linear_model:Lasso", _LASSO, _CUML, dtype="float64"),
    "ElasticNet": GpuEstimator("cuml.linear_model:ElasticNet", _LASSO | _same("l1_ratio"), _CUML, dtype="float64"),
    "RandomForestClassifier": GpuEstimator(
        "cuml.ensemble:RandomForestClassifier",
        {**_FOREST, "class_weight": _only(None, "it draws the same weights for every tree", "balanced")},
        {**_CUML, "n_bins": 128, "n_streams": 1},  # trees from several streams are not reproducible
        notes=_FOREST_NOTES,
    ),
    "RandomForestRegressor": GpuEstimator(
        "cuml.ensemble:RandomForestRegressor", _FOREST, {**_CUML, "n_bins": 128, "n_streams": 1}, notes=_FOREST_NOTES
    ),
    "KNeighborsClassifier": GpuEstimator("cuml.neighbors:KNeighborsClassifier", _NEIGHBORS, _CUML),
    "KNeighborsRegressor": GpuEstimator("cuml.neighbors:KNeighborsRegressor", _NEIGHBORS, _CUML),
    "GaussianNB": GpuEstimator("cuml.naive_bayes:GaussianNB", _same("priors var_smoothing"), _CUML),
    "KMeans": GpuEstimator(
        "cuml.cluster:KMeans",
        {
            **_same("n_clusters init n_init max_iter tol random_state"),
            "algorithm": ParameterRule(why="lloyd and elkan find the same clusters"),
        },
        _CUML,
        notes=("cuML's k-means draws different initial centres, and its tol is not scaled by the columns' variance",),
    ),
    "PCA": GpuEstimator(
        "cuml.decomposition:PCA",
        {
            "n_components": ParameterRule(
                "n_components",
                refused_types=(float, str),
                why="it takes a number of components, not a fraction of the variance",
                nearest="a whole number",
            ),
            "whiten": ParameterRule("whiten"),
            "svd_solver": ParameterRule("svd_solver", values=tuple(
                (name, "full") for name in ("auto", "covariance_eigh", "arpack", "randomized")
            )),
            "tol": ParameterRule(why="only arpack has it"),
            "iterated_power": ParameterRule(why="only the randomized solver has it"),
            "n_oversamples": ParameterRule(why="only the randomized solver has it"),
            "power_iteration_normalizer": ParameterRule(why="only the randomized solver has it"),
            "random_state": _DIRECT,
        },
        _CUML,
    ),
    "XGBClassifier": GpuEstimator("xgboost:XGBClassifier", _BOOSTING, {"device": "cuda"}, takes_missing=True),
    "XGBRanker": GpuEstimator("xgboost:XGBRanker", _BOOSTING, {"device": "cuda"}, takes_missing=True),
    "XGBRegressor": GpuEstimator("xgboost:XGBRegressor", _BOOSTING, {"device": "cuda"}, takes_missing=True),
}  # fmt: skip

_USE_XGBOOST = EstimatorRefusal(
    "cuML has no histogram gradient boosting with scikit-learn's parameters", "use the model xgboost"
)
_CALIBRATED = EstimatorRefusal(
    "cuML's LinearSVC has no probabilities; scikit-learn calibrates them across folds",
    "use the model logistic_regression",
)
_CATBOOST = EstimatorRefusal(
    "CatBoost's training on a GPU gives other trees than on the CPU, so it is not used", "use the model xgboost"
)
_EXTRA_TREES = EstimatorRefusal("cuML has no forest with random splits", "use the model random_forest")
_LIGHTGBM = EstimatorRefusal("LightGBM's packages for Linux are built without CUDA", "use the model xgboost")
_INSTALL_XGBOOST = f"pip uninstall -y xgboost-cpu xgboost xgboost-cu12 xgboost-cu13, then {INSTALL_RAPIDS}"
# A library that an estimator computes with, and that may be missing → its name and the change that helps
_OPTIONAL = {
    "cuml": ("cuML", f"{INSTALL_RAPIDS}, or use the model xgboost"),
    "cublas": ("cuBLAS", "pip install nvidia-cublas ('nvidia-cublas-cu12' for a driver of CUDA 12)"),
}
# scikit-learn's class name → the reason that it has no replacement on the device
NO_TWIN: dict[str, EstimatorRefusal] = {
    "HistGradientBoostingClassifier": _USE_XGBOOST,
    "HistGradientBoostingRegressor": _USE_XGBOOST,
    "ExtraTreesClassifier": _EXTRA_TREES,
    "ExtraTreesRegressor": _EXTRA_TREES,
    "CatBoostClassifier": _CATBOOST,
    "CatBoostRegressor": _CATBOOST,
    "LGBMClassifier": _LIGHTGBM,
    "LGBMRanker": _LIGHTGBM,
    "LGBMRegressor": _LIGHTGBM,
    "LinearSVC": _CALIBRATED,
    "CalibratedClassifierCV": _CALIBRATED,
    "OwnEstimator": EstimatorRefusal(
        "a custom estimator is a scikit-learn object and trains on the host", "fallback: allow"
    ),
    "PluginEstimator": EstimatorRefusal("the estimator of a plug-in trains on the host", "fallback: allow"),
}


def missing_library(row: GpuEstimator, lacks: Callable[[str], bool]) -> EstimatorRefusal | None:
    """Return the refusal of an estimator whose library is missing, or None."""
    library = row.needs or row.library
    if library not in _OPTIONAL or not lacks(library):
        return None
    title, fix = _OPTIONAL[library]
    return EstimatorRefusal(f"{row.path.partition(':')[2]} on the GPU needs {title}, which is not installed", fix)


def refusal(
    name: str, params: Mapping[str, Any], lacks: Callable[[str], bool] = lacks_nothing
) -> EstimatorRefusal | None:
    """Return the reason that the device cannot train an estimator with these parameters, or None if it can.

    `name` is the class name of scikit-learn or XGBoost, and `params` are keyword arguments under scikit-learn's names.
    `lacks` returns whether a library is missing: `gpupipe.backends.base.Backend.lacks`.
    """
    if name in NO_TWIN:
        return NO_TWIN[name]
    if name not in ESTIMATORS:
        return EstimatorRefusal(f"the GPU backend has no estimator {name!r}", f"one of {', '.join(ESTIMATORS)}")
    row = ESTIMATORS[name]
    if missing := missing_library(row, lacks):
        return missing
    found = row.refusals(params)
    if not found and row.library == "xgboost" and not _xgboost_knows_cuda():
        found = [EstimatorRefusal("the installed XGBoost was built without CUDA", _INSTALL_XGBOOST)]
    if not found:
        return None
    return EstimatorRefusal("; ".join(one.what for one in found), "; ".join(one.fix for one in found))


def create(name: str, params: Mapping[str, Any], lacks: Callable[[str], bool] = lacks_nothing) -> Any:
    """Return an unfitted estimator that computes on the device.

    Raise DeviceError if the device cannot train it with these parameters; ConfigError if the library is not installed.
    """
    refused = refusal(name, params, lacks)
    if refused is not None:
        raise DeviceError(f"not supported on the GPU: {refused.what}", where=name, fix=refused.fix)
    row = ESTIMATORS[name]
    module, _, class_name = row.path.partition(":")
    return getattr(_imported(module), class_name)(**row.translate(params))


def _imported(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(f"the GPU backend needs {module}: {error}", fix=INSTALL_RAPIDS) from error


def _xgboost_knows_cuda() -> bool:
    known: bool = _imported("xgboost").build_info()["USE_CUDA"]
    return known

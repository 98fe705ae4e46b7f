"""Recipes of the zoo: its table, its estimators by file format, and its whole runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.tasks import Task

TARGETS = {
    "binary": ("cultivar",),
    "multiclass": ("class",),
    "regression": ("proline",),
    "multioutput": ("cultivar", "strength"),
}
RESULTS = ("cultivar", "class", "proline")
TIME = "tasted"


def wine() -> pa.Table:
    """Return scikit-learn's wine table: five numeric columns with nulls, two text columns, a time and three targets."""
    from sklearn.datasets import load_wine

    found = load_wine()
    numbers = dict(zip(found.feature_names, found.data.T, strict=True))
    missing = np.arange(len(found.target)) % 17 == 5
    return pa.table(
        {
            "alcohol": pa.array(numbers["alcohol"], mask=missing),
            **{name: numbers[name] for name in ("malic_acid", "ash", "flavanoids", "color_intensity")},
            "tint": np.array(["pale", "ruby", "dark"])[np.digitize(numbers["hue"], [0.8, 1.05])],
            "strength": np.array(["mild", "strong"])[(numbers["magnesium"] > 98).astype(int)],
            TIME: pa.array(
                np.datetime64("2024-03-01T07:30", "us") + np.arange(len(found.target)) * np.timedelta64(35, "h")
            ),
            "cultivar": np.array(["first", "other"])[(found.target > 0).astype(int)],
            "class": found.target_names[found.target].astype(str),
            "proline": numbers["proline"],
        }
    )


@dataclass(frozen=True)
class ZooModel:
    """Recipe of an estimator: its task, parameters and view.

    Attributes
    ----------
    task : str
    name : str
        Name of a gpupipe model; "" for a plain scikit-learn estimator.
    params : mapping
    estimator : callable, optional
        Returns the scikit-learn estimator.
    view : str
        View that it is trained on.
    """

    task: Task
    name: str = ""
    params: Mapping[str, Any] = ()  # type: ignore[assignment]
    estimator: Callable[[], Any] | None = None
    view: str = "dense"


def boosted_trees(task: Task, **params: Any) -> ZooModel:
    """Return three shallow trees of XGBoost."""
    return ZooModel(task, "xgboost", {"n_estimators": 3, "max_depth": 3, **params}, view="codes")


def _own(task: Task, make: Callable[[], Any]) -> ZooModel:
    return ZooModel(task, estimator=make)


UBJ: dict[str, ZooModel] = {
    "binary": boosted_trees("binary"),
    "multi": boosted_trees("multiclass"),
    "regression": boosted_trees("regression", objective="reg:absoluteerror"),
    "dart": boosted_trees("binary", booster="dart"),
    "counts": boosted_trees("regression", objective="count:poisson"),
    "early": boosted_trees("binary", n_estimators=12, early_stopping_rounds=2),
    "forest": boosted_trees("multiclass", num_parallel_tree=2, subsample=0.5),
    # no categorical columns: joint trees of XGBoost before 3.4 have none
    "joint": replace(boosted_trees("multioutput", multi_strategy="multi_output_tree"), view="dense"),
}


def skops_models() -> dict[str, ZooModel]:
    """Return the estimators that are stored as skops: of gpupipe and of scikit-learn."""
    from sklearn import (
        discriminant_analysis,
        dummy,
        ensemble,
        feature_selection,
        kernel_approximation,
        kernel_ridge,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        tree,
    )

    def piped(*steps: Any) -> Callable[[], Any]:
        return lambda: pipeline.make_pipeline(*steps)

    logistic, ridge = linear_model.LogisticRegression, linear_model.Ridge
    small = {"n_estimators": 3, "max_depth": 3}
    boosting = {"max_iter": 3, "max_leaf_nodes": 6, "min_samples_leaf": 8}
    two: Task = "binary"
    three: Task = "multiclass"
    number: Task = "regression"
    ours = {
        "boosting": ZooModel(two, "hist_gradient_boosting", boosting, view="codes"),
        "boosting-multi": ZooModel(three, "hist_gradient_boosting", boosting, view="codes"),
        "boosting-number": ZooModel(number, "hist_gradient_boosting", {**boosting, "loss": "poisson"}, view="codes"),
        "forest": ZooModel(three, "random_forest", small, view="codes"),
        "forest-number": ZooModel(number, "random_forest", small, view="codes"),
        "brute": ZooModel(two, "knn", {"algorithm": "brute"}),
        "brute-cosine": ZooModel(three, "knn", {"algorithm": "brute", "metric": "cosine", "weights": "distance"}),
        "kd-tree": ZooModel(three, "knn", {"algorithm": "kd_tree", "leaf_size": 10}),
        "ball-tree": ZooModel(number, "knn", {"algorithm": "ball_tree", "metric": "canberra", "weights": "distance"}),
        "minkowski": ZooModel(two, "knn", {"algorithm": "ball_tree", "p": 3}),
        "machine": ZooModel(three, "linear_svc", {}),
        "bayes": ZooModel(three, "gaussian_nb", {}),
        "kmeans": ZooModel("clustering", "kmeans", {"n_clusters": 3}),
        "pca": ZooModel("embedding", "pca", {"n_components": 2}),
    }
    own = {
        "scaled": _own(two, piped(preprocessing.StandardScaler(), preprocessing.MinMaxScaler(), logistic())),
        "ranked": _own(three, piped(preprocessing.QuantileTransformer(n_quantiles=20), logistic())),
        "powers": _own(number, piped(preprocessing.PolynomialFeatures(2), preprocessing.RobustScaler(), ridge())),
        "kernel": _own(two, piped(kernel_approximation.Nystroem(n_components=8), logistic())),
        "waves": _own(two, piped(kernel_approximation.RBFSampler(n_components=8), logistic())),
        "selected": _own(two, piped(feature_selection.SelectKBest(k=3), preprocessing.PowerTransformer(), logistic())),
        "threshold": _own(two, piped(feature_selection.VarianceThreshold(), preprocessing.Normalizer(), logistic())),
        "union": _own(
            two,
            lambda: pipeline.make_pipeline(
                pipeline.FeatureUnion([("a", preprocessing.MaxAbsScaler()), ("b", preprocessing.Normalizer())]),
                logistic(),
            ),
        ),
        "perceptron": _own(three, lambda: neural_network.MLPClassifier(hidden_layer_sizes=(6,), max_iter=5)),
        "perceptron-number": _own(number, lambda: neural_network.MLPRegressor(hidden_layer_sizes=(6,), max_iter=5)),
        "descent": _own(three, lambda: linear_model.SGDClassifier(loss="log_loss")),
        "stack": _own(two, lambda: ensemble.StackingClassifier(
            [("t", tree.DecisionTreeClassifier(max_depth=2)), ("l", logistic())], cv=2)),
        "vote": _own(three, lambda: ensemble.VotingClassifier(
            [("t", tree.ExtraTreeClassifier(max_depth=2)), ("b", naive_bayes.BernoulliNB())], voting="soft")),
        "bag": _own(two, lambda: ensemble.BaggingClassifier(
            tree.DecisionTreeClassifier(max_depth=2), 2, max_features=3)),
        "neighbour-bag": _own(two, lambda: ensemble.BaggingClassifier(neighbors.KNeighborsClassifier(), 2)),
        "ada": _own(two, lambda: ensemble.AdaBoostClassifier(n_estimators=3)),
        "ada-number": _own(number, lambda: ensemble.AdaBoostRegressor(n_estimators=3)),
        "extra": _own(number, lambda: ensemble.ExtraTreesRegressor(**small)),
        "lda": _own(three, lambda: discriminant_analysis.LinearDiscriminantAnalysis()),
        "qda": _own(two, lambda: discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.1)),
        "dummy": _own(three, lambda: dummy.DummyClassifier(strategy="prior")),
        "kernel-ridge": _own(number, lambda: kernel_ridge.KernelRidge(kernel="rbf")),
        "tweedie": _own(number, lambda: linear_model.TweedieRegressor(power=1.5)),
        "huber": _own(number, piped(preprocessing.StandardScaler(), linear_model.HuberRegressor())),
    }  # fmt: skip
    return {**ours, **own}


def networks(onnx: bool) -> dict[str, ZooModel]:
    """Return the networks; with `onnx`, those that are damaged as ONNX files."""
    small = {"epochs": 1, "embedding_size": 4, "n_bins": 4}
    kinds = {
        "mlp": ZooModel("multiclass", "mlp", {**small, "depth": 2, "width": 6}, view="embedding"),
        "tabm": ZooModel("regression", "tabm", {**small, "depth": 1, "width": 6, "members": 3}, view="embedding"),
        "joint": ZooModel("multioutput", "mlp", {**small, "depth": 1, "width": 6}, view="embedding"),
        "transformer": ZooModel(
            "binary", "ft_transformer", {**small, "depth": 1, "hidden": 8, "heads": 2}, view="embedding"
        ),
    }
    return {name: made for name, made in kinds.items() if not onnx or name != "tabm"}


NPZ: dict[str, ZooModel] = {
    "logistic": ZooModel("binary", "logistic_regression", {}),
    "softmax": ZooModel("multiclass", "logistic_regression", {}),
    "ridge": ZooModel("regression", "ridge", {}),
}


TXT: dict[str, ZooModel] = {
    "leafwise": ZooModel("binary", "lightgbm", {"n_estimators": 3, "min_data_per_group": 5}, view="codes"),
    "leafwise-multi": ZooModel("multiclass", "lightgbm", {"n_estimators": 2, "num_leaves": 5}, view="codes"),
    "leafwise-counts": ZooModel("regression", "lightgbm", {"n_estimators": 3, "objective": "poisson"}, view="codes"),
}


def npz_models() -> dict[str, ZooModel]:
    """Return linear models, and trees of CatBoost if it is installed."""
    if find_spec("catboost") is None:
        return NPZ
    small = {"iterations": 4, "depth": 3, "one_hot_max_size": 2}
    oblivious = {
        "oblivious": ZooModel("binary", "catboost", small, view="codes"),
        "oblivious-multi": ZooModel("multiclass", "catboost", small, view="codes"),
        "oblivious-counts": ZooModel("regression", "catboost", {**small, "loss_function": "Poisson"}, view="codes"),
    }
    return NPZ | oblivious


ENSEMBLES: dict[Task, tuple[ZooModel, ...]] = {
    "multiclass": (UBJ["multi"], NPZ["softmax"], ZooModel("multiclass", "gaussian_nb", {})),
    "regression": (UBJ["regression"], NPZ["ridge"]),
}

HISTORY = {"key": "tint", "time": TIME, "columns": ["ash", "malic_acid"]}
RUNS: dict[str, dict[str, Any]] = {
    "isotonic": {"models": ["logistic_regression"], "evaluate": {"calibrate": "isotonic", "threshold": "best_f1"}},
    "sigmoid": {"models": ["knn"], "evaluate": {"calibrate": "sigmoid", "threshold": 0.3}},
    "several": {"models": ["logistic_regression"], "target": ["class"]},
    "number": {"models": ["ridge"], "target": ["proline"], "features": [
        {"impute": {"columns": "@numeric", "indicator": True}}, {"clip": {"columns": "ash", "quantiles": [0.1, 0.9]}},
        {"target_encode": "tint"}, {"cross": {"columns": ["tint", "strength"]}}, {"cyclic": TIME}]},
    "targets": {"models": ["logistic_regression"], "target": ["cultivar", "class"], "evaluate": {
        "calibrate": "temperature", "threshold": "best_f1", "intervals": 0.8}},
    "clusters": {"models": [{"kmeans": {"n_clusters": 3}}], "target": []},
    "embedding": {"models": [{"pca": {"n_components": 2}}], "target": []},
    "ruled": {"models": ["logistic_regression"], "data": {
        "ash": {"nulls": False, "range": [0, 10]}, "tint": {"set": ["pale", "ruby", "dark"]}}},
    "history": {"models": ["logistic_regression"], "features": [
        {"lag": HISTORY}, {"rolling": HISTORY | {"windows": "14d"}}, {"impute": "@numeric"}]},
}  # fmt: skip

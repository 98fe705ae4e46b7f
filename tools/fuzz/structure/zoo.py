"""A zoo of trained models of every exportable kind, trained in seconds on a table from scikit-learn."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gpupipe
from gpupipe.artifact import manifest
from gpupipe.config import parse_config
from gpupipe.models import MODELS, FitContext, FittedModel, fit
from gpupipe.models.fitted.ensemble import EnsembleMember, FittedEnsemble
from gpupipe.models.fitted.scikit_learn import FittedSklearn
from gpupipe.pipeline.run import run_pipeline
from gpupipe.tasks import Task
from tools.fuzz.damage.models import OWN, vouched_for

N_SCORED = 24
TARGETS = {"binary": "cultivar", "multiclass": "class", "regression": "proline"}
TIME = "tasted"
_SMALLEST = {"mlp": {"epochs": 1, "embedding_size": 2, "width": 2, "depth": 1}}
_EXCHANGED = ("model/parity", "model/estimator", "model/architecture")
Files = dict[str, bytes]


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


def _trees(task: Task, **params: Any) -> ZooModel:
    return ZooModel(task, "xgboost", {"n_estimators": 3, "max_depth": 3, **params}, view="codes")


def _own(task: Task, make: Callable[[], Any]) -> ZooModel:
    return ZooModel(task, estimator=make)


UBJ: dict[str, ZooModel] = {
    "binary": _trees("binary"),
    "multi": _trees("multiclass"),
    "regression": _trees("regression", objective="reg:absoluteerror"),
    "dart": _trees("binary", booster="dart"),
    "counts": _trees("regression", objective="count:poisson"),
    "early": _trees("binary", n_estimators=12, early_stopping_rounds=2),
    "forest": _trees("multiclass", num_parallel_tree=2, subsample=0.5),
}


def _skops() -> dict[str, ZooModel]:
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
    )  # fmt: skip

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


def _networks(onnx: bool) -> dict[str, ZooModel]:
    small = {"epochs": 1, "embedding_size": 4, "n_bins": 4}
    kinds = {
        "mlp": ZooModel("multiclass", "mlp", {**small, "depth": 2, "width": 6}, view="embedding"),
        "resnet": ZooModel("regression", "resnet", {**small, "depth": 1, "width": 6, "hidden": 8}, view="embedding"),
        "transformer": ZooModel(
            "binary", "ft_transformer", {**small, "depth": 1, "hidden": 8, "heads": 2}, view="embedding"
        ),
    }
    return {name: made for name, made in kinds.items() if not onnx or name != "resnet"}


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


def _npz() -> dict[str, ZooModel]:
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
    "several": {"models": ["logistic_regression"], "target": "class"},
    "number": {"models": ["ridge"], "target": "proline", "features": [
        {"impute": {"columns": "@numeric", "indicator": True}}, {"clip": {"columns": "ash", "quantiles": [0.1, 0.9]}},
        {"target_encode": "tint"}, {"cross": {"columns": ["tint", "strength"]}}, {"cyclic": TIME}]},
    "clusters": {"models": [{"kmeans": {"n_clusters": 3}}], "target": None},
    "embedding": {"models": [{"pca": {"n_components": 2}}], "target": None},
    "ruled": {"models": ["logistic_regression"], "data": {
        "ash": {"nulls": False, "range": [0, 10]}, "tint": {"set": ["pale", "ruby", "dark"]}}},
    "history": {"models": ["logistic_regression"], "features": [
        {"lag": HISTORY}, {"rolling": HISTORY | {"windows": "14d"}}, {"impute": "@numeric"}]},
}  # fmt: skip


class Zoo:
    """Trained models, each as the files of its directory; trained on first request.

    Parameters
    ----------
    folder : Path
        Folder for the runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shells: dict[tuple[str, str], Path] = {}

    @cached_property
    def table(self) -> pa.Table:
        """Training rows."""
        return wine()

    @property
    def scored(self) -> bytes:
        """A Parquet file with the rows to predict."""
        sink = pa.BufferOutputStream()
        pq.write_table(self.table.slice(50, N_SCORED), sink)
        return bytes(sink.getvalue())

    def estimators(self, kind: str) -> Iterator[tuple[str, Files]]:
        """Yield name and files of each model whose estimator is stored as ubj, skops, npz, txt, safetensors or onnx."""
        makers: dict[str, Callable[[], Mapping[str, ZooModel]]] = {
            "ubj": lambda: UBJ, "skops": _skops, "npz": _npz, "txt": lambda: TXT,
            "safetensors": partial(_networks, onnx=False), "onnx": partial(_networks, onnx=True),
        }  # fmt: skip
        for name, made in makers[kind]().items():
            yield name, self._files(made, with_onnx=kind == "onnx")

    def ensembles(self) -> Iterator[tuple[str, Files]]:
        """Yield name and files of ensembles, whose members have two models each and read different columns."""
        for task, made in ENSEMBLES.items():
            shell = self._shell(task, "dense")
            model = gpupipe.load_model(shell, "cpu")
            X, y = model.transform(self.table), self._target(task, model.goal.labels)
            names, n_classes, members = model.feature_names, model.goal.n_classes, []
            for i, each in enumerate(made):
                columns = tuple(range(i, len(names)))
                own = replace(_context(model, each), feature_names=names[i:])
                halves = [fit(MODELS.get(each.name)(**each.params), X[k::2, i:], y[k::2], own) for k in range(2)]
                members.append(EnsembleMember(f"{each.name} {i}", each.name, 1 / len(made), columns, tuple(halves)))
            ensemble = FittedEnsemble(tuple(members), task, names, n_classes, tuple(range(n_classes)))
            yield task, self._exported(shell, ensemble)

    def run(self, name: str, settings: Mapping[str, Any], *, with_time: bool = False) -> Files:
        """Return the files of the model of a complete run; `target` is None for an unsupervised one."""
        target = settings.get("target", "cultivar")
        unread = [*([] if with_time else [TIME]), *(other for other in TARGETS.values() if other != target)]
        source = {"path": str(self._source()), "drop": unread} | ({} if target is None else {"target": target})
        own = {key: value for key, value in settings.items() if key != "target"}
        config = {"source": source, "device": "cpu", "report": {"enabled": False}, **own}
        return files_of(run_pipeline(parse_config(config), self.folder / name).path / "model")

    def runs(self) -> Iterator[tuple[str, Files]]:
        """Yield name and files of models of complete runs, which together have every part that a model can have."""
        for name, settings in RUNS.items():
            yield name, self.run(name, settings, with_time=True)

    def _source(self) -> Path:
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "wine.parquet"
        if not path.exists():
            pq.write_table(self.table, path)
        return path

    def _shell(self, task: str, view: str) -> Path:
        """Return a model of the task with the columns of the view, as a container for estimators."""
        if (task, view) not in self._shells:
            seen_by: dict[str, Any] = {"codes": "hist_gradient_boosting", "dense": "knn", "embedding": _SMALLEST}
            model = {"clustering": "kmeans", "embedding": "pca"}.get(task, seen_by[view])
            settings = {"models": [model], "target": TARGETS.get(task)}
            with _without_onnx(view == "embedding" and task in TARGETS):
                files = self.run(f"{task}-{view}", settings)
            folder = self.folder / f"{task}-{view}-shell"
            folder.mkdir()
            for file, content in files.items():
                (folder / Path(file).name).write_bytes(content)
            self._shells[task, view] = folder
        return self._shells[task, view]

    def _files(self, made: ZooModel, with_onnx: bool) -> Files:
        shell = self._shell(made.task, made.view)
        model = gpupipe.load_model(shell, "cpu")
        X, y = model.transform(self.table), self._target(made.task, model.goal.labels)
        names, n_classes = model.feature_names, model.goal.n_classes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # networks that have not converged
            if made.estimator is not None:
                fitted: Any = FittedSklearn(
                    made.estimator().fit(X.astype("f4", order="C"), y),
                    made.task,
                    names,
                    n_classes,
                    tuple(range(n_classes)),
                )
            else:
                fitted = fit(MODELS.get(made.name)(**made.params), X, y, _context(model, made))
            with _without_onnx(made.view == "embedding" and not with_onnx):
                return self._exported(shell, fitted)

    def _exported(self, shell: Path, fitted: FittedModel) -> Files:
        """Return the files of a model directory with another estimator."""
        with TemporaryDirectory(dir=self.folder) as folder:
            description = fitted.save(folder)
            estimator = files_of(Path(folder))
        kept = {name: content for name, content in files_of(shell).items() if not name.startswith(_EXCHANGED)}
        values = json.loads(kept[OWN])
        values["estimator"] = description
        values["files"] = {name.partition("/")[2]: {} for name in [*kept, *estimator] if name != OWN}
        return dict(vouched_for({**kept, **estimator, OWN: manifest.render(values)}))

    def _target(self, task: str, labels: Sequence[Any]) -> Any:
        if task not in TARGETS:
            return None
        values = self.table[TARGETS[task]].to_pylist()
        return np.array([labels.index(value) for value in values] if labels else values, np.float64)


def _context(model: gpupipe.Model, made: ZooModel) -> FitContext:
    """Return the context to fit an estimator for the columns of a model."""
    names, n_classes = model.feature_names, model.goal.n_classes
    return FitContext(model.backend, made.task, 7, n_classes, model.features.categorical, names)


def _seeded(estimator: Any) -> Any:
    names = [name for name in estimator.get_params() if name.rpartition("__")[2] == "random_state"]
    return estimator.set_params(**dict.fromkeys(names, 7))


def _without_onnx(asked: bool) -> AbstractContextManager[Any]:
    """Disable the ONNX export of networks, which takes longer than their training."""
    return (
        patch("gpupipe.models.neural.files.onnx.find_obstacle", return_value="not requested")
        if asked
        else nullcontext()
    )


def files_of(folder: Path) -> Files:
    """Return the files of a model directory under their paths in a case."""
    return {f"model/{path.name}": path.read_bytes() for path in sorted(folder.iterdir())}

"""Valid runs on small tables, drawn over splits, tasks, rare classes, weights, empty parts, models and options."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np
import pandas as pd

import gpupipe as gp
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.timeline import Note, Stage

Drawn = TypeVar("Drawn")

FILES = (
    "config.yaml",
    "metrics.json",
    "predictions.parquet",
    "timeline.json",
    "model/manifest.json",
    "model/README.md",
)
OUTCOMES = ("success", "ConfigError", "DataError")
TASKS = (
    "binary", "binary", "multiclass", "multiclass", "multiclass", "regression", "regression", "quantile", "ranking",
    "clustering", "embedding", "several classes", "several numbers",
)  # fmt: skip
CLASSES = {"binary": ("no", "yes"), "multiclass": ("a", "b", "c", "d")}
TREES = {"n_estimators": 3, "max_depth": 2}
MODELS: Mapping[str, Sequence[Mapping[str, Mapping[str, Any]]]] = {
    "classes": (
        {"logistic_regression": {}}, {"logistic_regression": {"class_weight": "balanced"}}, {"gaussian_nb": {}},
        {"knn": {"n_neighbors": 3}}, {"linear_svc": {}}, {"xgboost": TREES}, {"random_forest": TREES},
        {"hist_gradient_boosting": {"max_iter": 3, "min_samples_leaf": 5}}, {"extra_trees": TREES},
        {"lightgbm": {"n_estimators": 3}}, {"xgboost": {"n_estimators": 20, "early_stopping_rounds": 2}},
    ),
    "numbers": (
        {"ridge": {}}, {"linear_regression": {}}, {"lasso": {}}, {"elastic_net": {}}, {"knn": {"n_neighbors": 3}},
        {"xgboost": TREES}, {"random_forest": TREES}, {"lightgbm": {"n_estimators": 3}},
        {"hist_gradient_boosting": {"max_iter": 3, "min_samples_leaf": 5}},
    ),
    "quantile": ({"xgboost": TREES}, {"lightgbm": {"n_estimators": 3}}),
    "ranking": ({"xgboost": TREES}, {"lightgbm": {"n_estimators": 3}}),
    "clustering": ({"kmeans": {"n_clusters": 2}}, {"kmeans": {"n_clusters": 4}}),
    "embedding": ({"pca": {"n_components": 2}}, {"pca": {"n_components": 1}}),
}  # fmt: skip
METRICS = {
    "binary": ("roc_auc", "average_precision", "log_loss", "brier", "f1", "accuracy", "balanced_accuracy", "matthews"),
    "multiclass": ("roc_auc", "average_precision", "log_loss", "brier", "f1", "balanced_accuracy", "matthews"),
    "regression": ("r2", "rmse", "mae", "median_ae", "mape"),
    "quantile": ("pinball_loss", "d2_pinball", "coverage_error"),
    "ranking": ("ndcg", "ndcg_10", "map"),
    "clustering": ("silhouette", "davies_bouldin", "calinski_harabasz"),
    "embedding": ("reconstruction_r2",),
}
METRICS |= {"several classes": METRICS["multiclass"], "several numbers": METRICS["regression"]}


@dataclass(frozen=True)
class DrawnRun:
    """Table and further arguments of a `gpupipe.Pipeline`."""

    rows: pd.DataFrame
    settings: Mapping[str, Any]

    def outcome(self, folder: Path) -> tuple[str, str]:
        """Run in a new folder; return the outcome and the violated requirement, or ``""``.

        The outcome is "success" or the name of the error. A configuration or table may be refused, but before any
        training. A run that has trained succeeds, writes all files and no failure of one, and its model predicts.
        """
        seen = _Seen()
        with tempfile.TemporaryDirectory(dir=folder) as own, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries: their display is tested elsewhere
            place = Path(own, "run")
            try:
                run_pipeline(gp.Pipeline(self.rows, device="cpu", **self.settings).config, place, [seen])
            except Exception as error:
                name = type(error).__name__
                is_refused = isinstance(error, gp.ConfigError | gp.DataError)
                if is_refused and not seen.n_trained:
                    return name if name in OUTCOMES else "DataError", ""
                return name, f"after {seen.n_trained} trainings:\n{traceback.format_exc()}"
            if missing := [name for name in FILES if not (place / name).is_file()]:
                return "success", f"missing files: {missing}"
            if seen.failures:
                return "success", "\n".join(seen.failures)
            predicted = gp.load_model(place / "model").predict(self.rows)
            return "success", "" if len(predicted) == len(self.rows) else f"{len(predicted)} predictions"


class _Seen:
    """Listener that counts trainings, and collects failures of optional documents."""

    def __init__(self) -> None:
        self.n_trained = 0
        self.failures: list[str] = []

    def started(self, stage: Stage) -> None:
        self.n_trained += "train " in stage.name

    def noted(self, note: Note) -> None:
        if "this is a bug in gpupipe" in note.text:
            self.failures.append(note.text)

    def ended(self, stage: Stage) -> None:
        if stage.status == "failed" and not self.failures:
            self.failures.append(f"stage {stage.name} failed")


def draw_run(seed: int) -> DrawnRun:
    """Return the run of a seed."""
    rng = Random(seed)
    task = rng.choice(TASKS)
    rows = _table(rng)
    settings: dict[str, Any] = {"split": _split(rng, rows), "report": {"enabled": rng.random() < 0.3}}
    settings |= _target(rng, rows, task, settings["split"])
    settings |= {"models": _models(rng, task), "evaluate": _evaluate(rng, task)}
    if rng.random() < 0.3 and task not in ("ranking", "clustering", "embedding"):
        _spoil_weights(rng, rows, settings)
    named = str(settings["split"])
    unused = [name for name in ("shop", "at", "part") if f"'{name}'" not in named] + ["w"] * ("weight" not in settings)
    settings["features"] = [{"drop": unused}]
    if rng.random() < 0.1:
        settings["where"] = rng.choice(["part == 'train'", "x > 0", "x > 1.5", "part != 'other'"])
    return DrawnRun(rows, settings)


def _table(rng: Random) -> pd.DataFrame:
    n = rng.choice([30, 40, 60, 120, 200])
    numbers = np.random.default_rng(rng.getrandbits(32))
    rows = pd.DataFrame(
        {
            "x": numbers.normal(size=n),
            "z": numbers.integers(0, rng.choice([1, 2, 9]), n) if rng.random() < 0.8 else numbers.normal(size=n),
            "c": numbers.choice(["u", "v", "w"], n),
            "shop": numbers.integers(0, rng.choice([2, 3, 6, 15]), n).astype(str),
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) // rng.choice([1, 1, 2, 7]), unit="D"),
            "part": np.where(np.arange(n) < n * rng.choice([0.5, 0.8, 0.95]), "train", "test"),
            "w": numbers.uniform(0.2, 2.0, n).round(2),
        }
    )
    if rng.random() < 0.2:
        rows.loc[numbers.random(n) < 0.1, "part"] = "other"
    if rng.random() < 0.3:
        rows.loc[numbers.random(n) < rng.choice([0.1, 0.9]), "x"] = np.nan
    if rng.random() < 0.1:
        rows["c"] = None
    return rows if rng.random() < 0.7 else rows.sample(frac=1, random_state=rng.getrandbits(31), ignore_index=True)


def _split(rng: Random, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the settings of a split; `rows` has its columns."""
    kind = rng.choice(["random", "rows", "time", "time", "group", "column", "group and time"])
    split: dict[str, Any] = {"random": {}, "rows": {"shuffle": False}}.get(kind, {})
    if kind == "column":
        return {"column": {"name": "part", "test": ["test"]}}
    if "time" in kind:
        split["time"] = "at"
        if rng.random() < 0.3:
            split["gap"] = rng.choice(["1d", "5d", "10 rows"])
        if rng.random() < 0.2:
            split["window"] = rng.choice(["10d", "15 rows"])
    if "group" in kind:
        split["group"] = "shop"
    if kind == "group and time" and rng.random() < 0.7:
        split["purge"] = rng.choice(["train", "test"])
    if rng.random() < 0.45:
        split["cv"] = rng.choice([2, 3, 5])
        if kind == "random" and rng.random() < 0.3:
            split["repeats"] = 2
    elif kind == "time" and rng.random() < 0.3:
        split["cutoff"] = str(rows["at"].iloc[rng.randrange(len(rows))].date())
    else:
        split["test_size"] = rng.choice([0.02, 0.1, 0.2, 0.5, 0.9])
    if kind == "random" and rng.random() < 0.5:
        split["stratify"] = False
    return split


def _target(rng: Random, rows: pd.DataFrame, task: str, split: dict[str, Any]) -> dict[str, Any]:
    """Add targets to the rows, with rare classes and constant parts, and return their settings."""
    if task in ("clustering", "embedding"):
        return {}
    if task == "ranking":
        split["group"] = "shop"
        for name in ("column", "stratify"):
            split.pop(name, None)
        rows["y"] = _classes(rng, rows, (0, 1, 2, 3)).astype(int)
        return {"target": "y", "task": "ranking"}
    if task in CLASSES:
        rows["y"] = _classes(rng, rows, CLASSES[task])
    elif task.startswith("several"):
        for name in ("y", "y2"):
            kind = CLASSES[rng.choice(list(CLASSES))]
            rows[name] = _numbers(rng, rows) if task == "several numbers" else _classes(rng, rows, kind)
    else:
        rows["y"] = _numbers(rng, rows)
    if rng.random() < 0.15:
        rows.loc[rows.sample(frac=0.2, random_state=1).index, "y"] = None
    if task == "quantile":
        return {"target": "y", "task": "quantile", "quantiles": rng.choice([[0.1, 0.5, 0.9], [0.1, 0.9]])}
    return {"target": ["y", "y2"] if "y2" in rows else "y"}


def _places(rng: Random, rows: pd.DataFrame) -> list[np.ndarray[Any, Any]]:
    """Return masks of rows where a class, or a value, occurs exclusively."""
    n, order = len(rows), rows["at"].rank(method="first").to_numpy() - 1
    one = np.zeros(n, bool)
    one[rng.randrange(n)] = True
    few = np.zeros(n, bool)
    few[rng.sample(range(n), 3)] = True
    return [
        order < n // 6, order < 2, order >= n - n // 6, order >= n - 1, one, few, np.arange(n) >= n - 2,
        (rows["shop"] == rng.choice(sorted(rows["shop"]))).to_numpy(), (rows["part"] == "test").to_numpy(),
        (rows["part"] == "train").to_numpy(), (rows["part"] == "other").to_numpy(), order >= n // 2,
    ]  # fmt: skip


def _classes(rng: Random, rows: pd.DataFrame, labels: Sequence[Drawn]) -> pd.Series[Any]:
    """Return a target whose last class often occurs in few rows only, or in one part of the table."""
    score = rows["x"].fillna(0.0) + np.random.default_rng(rng.getrandbits(32)).normal(size=len(rows))
    common = labels if rng.random() < 0.3 else labels[:-1]
    found = np.array(common, object)[np.clip(pd.qcut(score, len(common), labels=False), 0, len(common) - 1)]
    if common is not labels:
        found[rng.choice(_places(rng, rows))] = labels[-1]
    if rng.random() < 0.2:  # a part with a single class
        found[rng.choice(_places(rng, rows))] = labels[0]
    return pd.Series(found, rows.index)


def _numbers(rng: Random, rows: pd.DataFrame) -> pd.Series[Any]:
    """Return a numeric target, which is often constant in a part of the table."""
    found = rows["x"].fillna(0.0) * 3 + np.random.default_rng(rng.getrandbits(32)).normal(size=len(rows))
    if rng.random() < 0.4:
        found[rng.choice(_places(rng, rows))] = 0.0
    if rng.random() < 0.2:
        found[~rng.choice(_places(rng, rows))] = 7.5
    return found * rng.choice([1.0, 1.0, 1e-9, 1e9])


def _models(rng: Random, task: str) -> list[Any]:
    kind = "classes" if task in CLASSES or task == "several classes" else task
    kind = "numbers" if kind in ("regression", "several numbers") else kind
    drawn = rng.sample(MODELS[kind], rng.choice([1, 1, 2]))
    chosen = [dict(each) for each in {next(iter(each)): each for each in drawn}.values()]
    if task in ("binary", "multiclass", "regression") and rng.random() < 0.06:
        members = ["ridge"] if task == "regression" else ["logistic_regression"]
        return [{"best": {"models": [*members, "random_forest"], "members": 2, "folds": 2}}]
    if kind in ("classes", "numbers") and rng.random() < 0.08:
        name = "logistic_regression" if kind == "classes" else "ridge"
        return [{name: {}, "tune": {"trials": 2, "folds": 2}}]
    return chosen


def _evaluate(rng: Random, task: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if rng.random() < 0.4:
        found["metrics"] = rng.sample(METRICS[task], rng.randrange(1, len(METRICS[task]) + 1))
    if rng.random() < 0.3 and task != "ranking":
        found["intervals"] = 0.8 if task == "quantile" else rng.choice([0.6, 0.8, 0.9])
    if task == "binary" and rng.random() < 0.3:
        found["threshold"] = rng.choice(["best_f1", "best_accuracy", "best_balanced_accuracy", "youden", 0.0, 1.0])
    elif task == "binary" and rng.random() < 0.2:
        found["cost"] = {"false_positive": 1, "false_negative": 5}
    if rng.random() < 0.3:
        found["calibrate"] = rng.choice(["sigmoid", "isotonic", "temperature"])
    if rng.random() < 0.3:
        found["validation"] = rng.choice([0.05, 0.5, 0.9])
    if rng.random() < 0.3:
        found["importance"] = rng.choice([False, {"rows": 1, "repeats": 1}, {"columns": 1}])
    return found


def _spoil_weights(rng: Random, rows: pd.DataFrame, settings: dict[str, Any]) -> None:
    """Give a part of the rows no weight, or almost all of it."""
    settings["weight"] = "w"
    place = rng.choice(_places(rng, rows))
    if "y" in rows and rng.random() < 0.4:
        place = (rows["y"] == rows["y"].iloc[rng.randrange(len(rows))]).to_numpy()
    rows.loc[place, "w"] = rng.choice([0.0, 0.0, 1e-9, 1e9])

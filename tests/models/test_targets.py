"""Several targets: each model against its library, joint trees and networks, files, and settings that contradict."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xgboost
from pydantic import ValidationError
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge as SklearnRidge

from gpupipe.artifact.untrusted.ubjson import UbjsonReader, render
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.errors import ArtifactError, ConfigError, DataError
from gpupipe.models import MODELS, FitContext, FittedModel, fit
from gpupipe.models.composites.parts import FittedTargets
from gpupipe.random_streams import derive_seed
from gpupipe.tasks import TargetSpec
from tests.models.conftest import Data
from tests.models.folder_files import load_fitted

MODEL_SEED = derive_seed(7, "model")

NUMBERS = (TargetSpec("regression", name="cost"), TargetSpec("regression", name="size"))
LABELS = (TargetSpec("binary", 2, "left", ("no", "yes")), TargetSpec("binary", 2, "late", ("no", "yes")))
MIXED = (LABELS[0], TargetSpec("multiclass", 3, "risk", ("high", "low", "mid")))
JOINT: dict[str, Any] = {"multi_strategy": "multi_output_tree", "n_estimators": 30, "max_depth": 4}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "ridge": ("ridge", {}),
    "random_forest": ("random_forest", {"n_estimators": 10}),
    "hist_gradient_boosting": ("hist_gradient_boosting", {"max_iter": 15}),
    "xgboost": ("xgboost", {"n_estimators": 15}),
    "joint trees": ("xgboost", JOINT),
    "lightgbm": ("lightgbm", {"n_estimators": 15}),
    "catboost": ("catboost", {"iterations": 15, "depth": 3, "learning_rate": 0.3}),
    "network": ("mlp", {"epochs": 60, "width": 16, "embedding_size": 4, "batch_size": 32, "learning_rate": 0.01}),
}
OF_TARGETS = {
    "numbers": (NUMBERS, tuple(CASES)),
    "labels": (LABELS, tuple(name for name in CASES if name != "ridge")),
    "mixed": (MIXED, tuple(name for name in CASES if name not in ("ridge", "joint trees"))),
}
PAIRS = [(kind, name) for kind, (_, names) in OF_TARGETS.items() for name in names]


def _rows() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(5)
    X = np.asfortranarray(rng.normal(size=(600, 5)), dtype=np.float32)
    cost, size = 1_000 * X[:, 0] + 100 * rng.normal(size=600), X[:, 1] ** 2 + 0.1 * rng.normal(size=600)
    left, late = X[:, 0] + X[:, 2] > 0, X[:, 1] > 0.5
    ys = {
        "numbers": np.column_stack([cost, size]),
        "labels": np.column_stack([left, late]).astype(np.float64),
        "mixed": np.column_stack([left, np.digitize(X[:, 3], [-0.5, 0.5])]).astype(np.float64),
    }
    return X, ys


X, YS = _rows()


def context_of(kind: str, **more: Any) -> FitContext:
    return FitContext(CpuBackend(), "multioutput", 7, feature_names=list("abcde"), targets=OF_TARGETS[kind][0], **more)


def data_of(kind: str) -> Data:
    return Data(np.asfortranarray(X[:400]), YS[kind][:400], X[400:], YS[kind][400:], context_of(kind))


def fitted(kind: str, name: str, **params: Any) -> FittedModel:
    model, given = CASES[name]
    data = data_of(kind)
    return fit(MODELS.get(model)(**given | params), data.X, data.y, data.context)


@pytest.fixture(scope="module")
def models() -> dict[tuple[str, str], FittedModel]:
    return {pair: fitted(*pair) for pair in PAIRS}


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_every_target_is_learned(kind: str, name: str, models: dict[tuple[str, str], FittedModel]) -> None:
    data = data_of(kind)
    prediction = models[kind, name].predict(data.X_test)
    prediction.check(len(data.X_test), 0, models[kind, name].n_outputs)
    for part, spec, y in zip(prediction.parts, data.context.targets, data.y_test.T, strict=True):
        if spec.task == "regression":
            least = 0.9 if spec.name == "cost" else -0.1 if name == "ridge" else 0.8  # no linear model has a square
            assert 1 - ((part.output - y) ** 2).mean() / y.var() > least
        else:
            found = part.output > 0.5 if spec.task == "binary" else part.output.argmax(axis=1)
            assert (found == y).mean() > 0.8


def test_models_of_single_targets_are_those_of_the_library(models: dict[tuple[str, str], FittedModel]) -> None:
    data = data_of("numbers")
    alone = [SklearnRidge().fit(data.X.astype(np.float64), y).predict(data.X_test) for y in data.y.T]
    np.testing.assert_allclose(models["numbers", "ridge"].predict(data.X_test).output.T, alone, rtol=1e-5, atol=1e-4)
    labels = data_of("mixed")
    forests = [RandomForestClassifier(10, random_state=MODEL_SEED).fit(labels.X, y.astype(int)) for y in labels.y.T]
    risk = models["mixed", "random_forest"].predict(labels.X_test).parts[1].output
    np.testing.assert_allclose(risk, forests[1].predict_proba(labels.X_test), atol=1e-12)


def test_joint_trees_are_those_of_the_library_on_scaled_targets(models: dict[tuple[str, str], FittedModel]) -> None:
    data = data_of("numbers")
    center, scale = data.y.mean(axis=0), data.y.std(axis=0)
    params = {"n_estimators": 30, "max_depth": 4, "multi_strategy": "multi_output_tree", "random_state": MODEL_SEED}
    alone = xgboost.XGBRegressor(**params).fit(data.X, (data.y - center) / scale)
    expected = center + scale * alone.predict(data.X_test)
    found = models["numbers", "joint trees"].predict(data.X_test).output
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-4)
    labels = data_of("labels")
    alone = xgboost.XGBClassifier(**params).fit(labels.X, labels.y.astype(int))
    found = models["labels", "joint trees"].predict(labels.X_test).output
    np.testing.assert_allclose(found, alone.predict_proba(labels.X_test), rtol=1e-6)


def test_units_of_a_target_change_no_split(models: dict[tuple[str, str], FittedModel]) -> None:
    data, factor = data_of("numbers"), np.array([1.0, 2.0**20])
    other = fit(MODELS.get("xgboost")(**JOINT), data.X, data.y * factor, data.context)
    expected = models["numbers", "joint trees"].predict(data.X_test).output * factor
    np.testing.assert_allclose(other.predict(data.X_test).output, expected, rtol=1e-4, atol=1e-3)


def test_integer_weights_of_joint_trees_are_repeated_rows() -> None:
    rng = np.random.default_rng(1)
    levels = np.asfortranarray(
        rng.integers(0, 8, (300, 3)), dtype=np.float32
    )  # few values: bins do not depend on weights
    y = np.column_stack([levels[:, 0] * 2 + rng.normal(size=300), levels[:, 1] + rng.normal(size=300)])
    weight = rng.integers(1, 4, 300)
    settings = MODELS.get("xgboost")(**JOINT)
    weighted = fit(settings, levels, y, context_of("numbers", weights=weight.astype(float)))
    again = np.repeat(np.arange(300), weight)
    repeated = fit(settings, np.asfortranarray(levels[again]), y[again], context_of("numbers"))
    np.testing.assert_allclose(weighted.predict(levels).output, repeated.predict(levels).output, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_a_saved_model_and_its_row_estimators_predict_the_same_bits(
    kind: str, name: str, models: dict[tuple[str, str], FittedModel], tmp_path: Path
) -> None:
    model, rows = models[kind, name], X[400:]
    loaded = load_fitted(tmp_path, model.save(tmp_path))
    assert loaded.targets == model.targets == OF_TARGETS[kind][0]
    expected = model.predict(rows).outputs
    np.testing.assert_array_equal(loaded.predict(rows).outputs, expected)
    np.testing.assert_array_equal(loaded.with_library().predict(rows).outputs, expected)
    for engine in ("numpy", "numba"):
        estimator = loaded.row_estimator(engine)
        np.testing.assert_array_equal(estimator(rows[:1]).outputs, model.predict(rows[:1]).outputs)
        if name != "network":  # its rounding depends on the number of rows
            np.testing.assert_array_equal(estimator(rows).outputs, expected)


def test_each_target_stops_early_by_its_own_loss_and_joint_trees_by_the_mean() -> None:
    alone = fitted("numbers", "xgboost", n_estimators=300, early_stopping_rounds=5, learning_rate=0.3)
    assert isinstance(alone, FittedTargets)
    rounds = [model.estimator.num_boosted_rounds() for model in alone.models]
    assert len(set(rounds)) > 1
    assert [note.split(" of ")[0] for note in alone.notes] == [
        f"{spec.name}: best round {n}" for spec, n in zip(NUMBERS, rounds, strict=True)
    ]
    joint = fitted("numbers", "joint trees", n_estimators=300, early_stopping_rounds=5, learning_rate=0.3)
    assert len(joint.notes) == 1
    assert joint.notes[0].startswith("best round")


def test_importances_have_a_common_scale(models: dict[tuple[str, str], FittedModel]) -> None:
    for name in ("ridge", "xgboost", "joint trees"):
        found = models["numbers", name].importances()
        assert found is not None
        assert max(found, key=found.__getitem__) in ("a", "b")
    shares = models["numbers", "xgboost"].importances() or {}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares["a"], shares["b"]) > 0.3  # each target relies on one of them


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"booster": "dart"}, "multi_output_tree needs booster: gbtree"),
        ({"tree_method": "approx"}, "multi_output_tree needs booster: gbtree and tree_method: hist"),
        ({"objective": "reg:quantileerror"}, "multi_output_tree has no reg:quantileerror"),
        ({"base_score": 0.5}, "base_score: it is one number"),
    ],
)
def test_joint_trees_refuse_what_they_cannot(params: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        MODELS.get("xgboost")(multi_strategy="multi_output_tree", **params)


def test_targets_that_a_model_cannot_learn_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="all numbers, or all of two classes"):
        fitted("mixed", "joint trees")
    with pytest.raises(ConfigError, match="class_weight is for one target"):
        fitted("labels", "network", class_weight="balanced")
    with pytest.raises(ConfigError, match="KMeans cannot learn the task regression"):
        fit(MODELS.get("kmeans")(), X, YS["numbers"], context_of("numbers"))
    coded = replace(context_of("numbers"), categorical={4: 3})
    if tuple(map(int, xgboost.__version__.split(".")[:2])) < (3, 4):
        with pytest.raises(ConfigError, match=r"with categorical columns needs XGBoost 3\.4"):
            fit(MODELS.get("xgboost")(**JOINT), X, YS["numbers"], coded)


@pytest.mark.parametrize("name", ["random_forest", "joint trees", "network"])
def test_a_target_with_a_single_class_is_named(name: str) -> None:
    data, (model, params) = data_of("labels"), CASES[name]
    y = data.y.copy()
    y[:, 1] = 1.0
    with pytest.raises(DataError, match=r"target 'late': all 400 training rows have the same class \((yes|1|\[1\])"):
        fit(MODELS.get(model)(**params), data.X, y, data.context)


def _without(d: dict[str, Any], key: str) -> None:
    d.pop(key)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: _without(d, "models"),
        lambda d: d["models"].pop(),
        lambda d: d["models"].__setitem__(0, "xgboost"),
        lambda d: _without(d, "targets"),
        lambda d: d.update(targets=[]),
        lambda d: d["targets"].append({"task": "regression", "n_classes": 0}),
        lambda d: d["targets"][0].update(task="quantile"),
        lambda d: d["targets"][0].update(n_classes=3),
        lambda d: d["targets"][0].update(name="cost"),
        lambda d: d.update(task="regression"),
        lambda d: d["models"][1].update(library="targets"),
        lambda d: d.update(library="lightgbm", file="target-1-estimator.ubj"),
        lambda d: d.update(feature_names=d["feature_names"][:-1]),
    ],
    ids=[
        "no models", "too few", "not objects", "no targets", "an empty list", "too many targets", "a wrong task",
        "a number with classes", "an unknown field", "another task", "nested", "another library", "fewer columns",
    ],
)  # fmt: skip
def test_a_corrupt_description_is_refused(
    change: Callable[[dict[str, Any]], Any], models: dict[tuple[str, str], FittedModel], tmp_path: Path
) -> None:
    description = copy.deepcopy(models["numbers", "xgboost"].save(tmp_path))
    change(description)
    with pytest.raises(ArtifactError):
        load_fitted(tmp_path, description)


def _leaves(tree: dict[str, Any]) -> Any:
    return np.flatnonzero(tree["left_children"] == -1)


def _swap(tree: dict[str, Any]) -> None:
    tree["leaf_weights"] = tree["leaf_weights"][:-1]


def _not_finite(tree: dict[str, Any]) -> None:
    tree["leaf_weights"] = tree["leaf_weights"].copy()
    tree["leaf_weights"][0] = np.inf


def _elsewhere(position: int) -> Callable[[dict[str, Any]], None]:
    def change(tree: dict[str, Any]) -> None:
        tree["right_children"] = tree["right_children"].copy()
        tree["right_children"][_leaves(tree)[0]] = position

    return change


def _narrower(tree: dict[str, Any]) -> None:
    tree["tree_param"]["size_leaf_vector"] = "1"


@pytest.mark.parametrize("change", [_swap, _not_finite, _elsewhere(10**6), _elsewhere(1), _elsewhere(-1), _narrower])
def test_corrupt_leaf_vectors_are_refused(
    change: Callable[[dict[str, Any]], None], models: dict[tuple[str, str], FittedModel], tmp_path: Path
) -> None:
    model = models["numbers", "joint trees"]
    description = model.save(tmp_path)
    (name,) = description["files"]
    document = UbjsonReader((tmp_path / name).read_bytes()).document()
    change(document["learner"]["gradient_booster"]["model"]["trees"][3])
    (tmp_path / name).write_bytes(render(document))
    with pytest.raises(ArtifactError):
        load_fitted(tmp_path, description)


def test_a_network_of_several_targets_needs_no_pytorch_to_predict(
    models: dict[tuple[str, str], FittedModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpupipe.models.neural.files import load as loading

    model = models["mixed", "network"]
    description = model.save(tmp_path)
    monkeypatch.setattr(loading, "find_spec", lambda name: None if name == "torch" else object())
    loaded = load_fitted(tmp_path, description)
    assert loaded.library == "onnxruntime"
    expected = np.asarray(model.predict(X).outputs)
    np.testing.assert_allclose(np.asarray(loaded.predict(X).outputs), expected, atol=1e-5)
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "estimator.onnx")
    names = [output.name for output in session.get_outputs()]
    outputs = session.run(None, {"X": np.ascontiguousarray(X)})[names.index("outputs")]
    np.testing.assert_allclose(outputs, expected, atol=1e-5)

"""Ensembles of fitted models: prediction, files, and descriptions that are corrupt or malicious."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.inspection import permutation_importance
from sklearn.metrics import r2_score

from gpupipe.errors import ArtifactError
from gpupipe.metrics import permutation_importance as importances
from gpupipe.models.composites.ensemble import EnsembleMember, FittedEnsemble
from gpupipe.models.device.fitted import HostModel
from gpupipe.models.fitted import row_blocks
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.fitted.row_blocks import BlockPredictor
from gpupipe.models.linear.fitted import Coefficients, FittedLinear
from tests.models.composites.ensembles import ensemble_of, fit_member
from tests.models.conftest import Data
from tests.models.folder_files import load_fitted

LINEAR = {"binary": "logistic_regression", "multiclass": "logistic_regression", "regression": "ridge"}


def of_task(data: Data) -> FittedEnsemble:
    """Return an ensemble of boosted trees, linear models and one forest, which read different columns."""
    rows, context = (data.X, data.y), data.context
    members = [
        fit_member("trees", "xgboost", 0.5, range(2, 8), rows, context, n_estimators=8, max_depth=3),
        fit_member("linear", LINEAR[context.task], 0.3, (7, 0, 3), rows, context, 3),
        fit_member("forest", "random_forest", 0.2, (1, 2, 9), rows, context, 1, n_estimators=3, max_depth=3),
    ]
    return ensemble_of(members, context)


@pytest.fixture(scope="module")
def ensembles(tables: dict[str, Data]) -> dict[str, FittedEnsemble]:
    return {task: of_task(tables[task]) for task in LINEAR}


@pytest.fixture(scope="module")
def saved(ensembles: dict[str, FittedEnsemble], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder and the description of the saved binary ensemble."""
    folder = tmp_path_factory.mktemp("ensemble")
    return folder, ensembles["binary"].save(folder)


def mean_of_models(ensemble: FittedEnsemble, X: Any) -> Any:
    """Return the prediction as defined: the weighted mean over members of the mean over their models."""
    means = [
        np.mean(
            [model.predict(np.asfortranarray(X[:, list(member.columns)])).output for model in member.models], axis=0
        )
        for member in ensemble.members
    ]
    return np.average(means, axis=0, weights=[member.weight for member in ensemble.members])


@pytest.mark.parametrize("task", list(LINEAR))
def test_the_prediction_is_the_weighted_mean_and_survives_its_files(
    task: str, ensembles: dict[str, FittedEnsemble], tables: dict[str, Data], tmp_path: Path
) -> None:
    ensemble, X = ensembles[task], tables[task].X_test
    found = ensemble.predict(X)
    found.check(len(X), ensemble.n_classes)
    np.testing.assert_allclose(found.output, mean_of_models(ensemble, X), rtol=1e-12)
    description = json.loads(json.dumps(ensemble.save(tmp_path)))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(description["files"])
    loaded = load_fitted(tmp_path, description)
    np.testing.assert_array_equal(loaded.predict(X).output, found.output)
    assert loaded.models[0].feature_names == ensemble.feature_names[2:8]
    np.testing.assert_array_equal(loaded.with_library().predict(X).output, found.output)


def test_a_class_that_a_model_was_not_trained_on_has_probability_0_in_it(
    tables: dict[str, Data], tmp_path: Path
) -> None:
    data = tables["multiclass"]
    known = data.y != 1
    two = fit_member("two", "logistic_regression", 0.5, range(5), (data.X[known], data.y[known]), data.context)
    three = fit_member("three", "logistic_regression", 0.5, range(5), (data.X, data.y), data.context)
    ensemble = ensemble_of([two, three], data.context)
    loaded = load_fitted(tmp_path, ensemble.save(tmp_path))
    assert [model.classes for model in loaded.models] == [(0, 2), (0, 2), (0, 1, 2), (0, 1, 2)]
    found = loaded.predict(data.X_test)
    np.testing.assert_array_equal(found.output, ensemble.predict(data.X_test).output)
    alone = mean_of_models(replace(ensemble, estimator=(replace(three, weight=1.0),)), data.X_test)
    np.testing.assert_allclose(found.output[:, 1], alone[:, 1] / 2, rtol=1e-12)


@pytest.mark.parametrize("task", list(LINEAR))
def test_the_first_models_of_each_member_are_an_ensemble(
    task: str, ensembles: dict[str, FittedEnsemble], tables: dict[str, Data]
) -> None:
    ensemble, X = ensembles[task], tables[task].X_test
    assert ensemble.most_models == 3
    assert ensemble.of_first_models(3) is ensemble
    two = ensemble.of_first_models(2)
    assert isinstance(two, FittedEnsemble)
    assert [len(member.models) for member in two.members] == [2, 2, 1]
    np.testing.assert_allclose(two.predict(X).output, mean_of_models(two, X), rtol=1e-12)
    assert two.weights() == ensemble.weights()
    assert two.row_seconds < ensemble.row_seconds == pytest.approx(sum(model.row_seconds for model in ensemble.models))
    tree, linear = ensemble.models[0], ensemble.models[2]
    assert tree.most_models == 1 and tree.of_first_models(1) is tree
    assert linear.row_seconds < tree.row_seconds


class Wrapped(RegressorMixin, BaseEstimator):
    """An ensemble as scikit-learn's functions take estimators."""

    def __init__(self, ensemble: FittedEnsemble) -> None:
        self.ensemble = ensemble

    def fit(self, X: Any, y: Any) -> None:
        raise AssertionError("it is trained")

    def predict(self, X: Any) -> Any:
        return mean_of_models(self.ensemble, X)


def test_importances_of_all_models_at_once_are_those_of_scikit_learn(
    ensembles: dict[str, FittedEnsemble], tables: dict[str, Data]
) -> None:
    ensemble, X = ensembles["regression"], tables["regression"].X_test
    y = ensemble.predict(X).output + np.random.default_rng(0).normal(size=len(X))
    columns, repeats = range(X.shape[1]), 40
    reference = permutation_importance(Wrapped(ensemble), X, y, scoring="r2", n_repeats=repeats, random_state=0)
    found = [
        importances(
            lambda stacked: ensemble.predict(stacked).output,
            lambda predicted, part: r2_score(y, predicted[part]),
            np.asarray(X),
            {str(column): [column] for column in columns},
            repeats=repeats,
            n_threads=n_threads,
        )
        for n_threads in (1, 3)
    ]
    assert found[0] == found[1]
    by_column = {int(each.name): each.mean for each in found[0]}
    error = reference.importances_std.max() / np.sqrt(repeats)
    np.testing.assert_allclose([by_column[column] for column in columns], reference.importances_mean, atol=5 * error)
    assert by_column[8] == 0.0  # no member reads it


def test_models_share_the_time_to_compile_their_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    engines: list[str] = []

    def make(engine: str) -> Any:
        engines.append(engine)
        return lambda rows: np.zeros((len(rows), 1))

    class Trees(FittedLinear):
        def predict(self, X: Any) -> Prediction:
            return Prediction("regression", value=BlockPredictor(make, n_trees=10)(X)[:, 0])

    def predict(n_models: int) -> list[str]:
        model = Trees(Coefficients(np.ones((1, 1)), np.zeros(1)), "regression", ("x",))
        FittedEnsemble((EnsembleMember("m", "m", 1.0, (0,), (model,) * n_models),), "regression", ("x",)).predict(
            np.zeros((5, 1), np.float32)
        )
        found = engines.copy()
        engines.clear()
        return found

    monkeypatch.setattr(row_blocks, "COMPILED_FROM", 10 * 5 * 4)
    assert predict(3) == ["numpy"] * 3 and predict(4) == ["numba"] * 4
    with row_blocks.repeated_predictions(20):
        assert predict(3) == ["numba"] * 3


def test_columns_that_no_member_reads_can_be_dropped(
    ensembles: dict[str, FittedEnsemble], tables: dict[str, Data]
) -> None:
    ensemble, X = ensembles["binary"], tables["binary"].X_test
    columns = ensemble.columns_read()
    assert columns == (0, 1, 2, 3, 4, 5, 6, 7, 9)
    small = ensemble.of_columns(columns)
    assert small.feature_names == tuple(ensemble.feature_names[column] for column in columns)
    np.testing.assert_array_equal(
        small.predict(np.asfortranarray(X[:, list(columns)])).output, ensemble.predict(X).output
    )
    on_host = HostModel(ensemble, "binary", ensemble.feature_names, 2, (0, 1)).of_columns(columns)
    assert on_host.feature_names == small.feature_names
    assert on_host.columns_read() == small.columns_read() == tuple(range(9))
    with pytest.raises(ValueError, match="FittedXGBoost needs all 6 columns"):
        ensemble.models[0].of_columns(range(5))


def test_importances_are_averaged_over_models_of_one_kind_only(
    ensembles: dict[str, FittedEnsemble], tables: dict[str, Data]
) -> None:
    ensemble, X = ensembles["regression"], tables["regression"].X_test
    assert ensemble.importances() is None
    linear = replace(ensemble.members[1], weight=1.0)
    alone = replace(ensemble, estimator=(linear,))
    coefficients = np.mean([model.estimator.coef[0] for model in linear.models], axis=0)
    found = alone.importances()
    assert found is not None
    np.testing.assert_allclose([found[ensemble.feature_names[column]] for column in (7, 0, 3)], coefficients)
    assert sum(value != 0 for value in found.values()) == 3
    weights = ensemble.column_weights(X)
    assert weights is not None
    np.testing.assert_allclose(weights.sum(), 1.0)
    assert weights[8] == 0 and (weights[[0, 7]] > 0).all()


class OnDevice(FittedModel):
    """A model whose portable form is another model, and whose first row depends on rounding."""

    library = "device"

    def predict(self, X: Any) -> Prediction:
        raise AssertionError("not on the host")

    def importances(self) -> None:
        return None

    def portable(self) -> FittedModel:
        return self.estimator

    def unstable_rows(self, X: Any) -> Any:
        return np.arange(len(X)) == 0


def test_models_of_a_device_are_exported_in_their_portable_form(
    ensembles: dict[str, FittedEnsemble], tables: dict[str, Data], tmp_path: Path
) -> None:
    ensemble, X = ensembles["binary"], tables["binary"].X_test
    assert ensemble.portable() is ensemble
    first, *others = ensemble.members
    on_device = tuple(OnDevice(model, "binary", model.feature_names, 2, (0, 1)) for model in first.models)
    device = replace(ensemble, estimator=(replace(first, models=on_device), *others))
    np.testing.assert_array_equal(device.unstable_rows(X[:3]), [True, False, False])
    assert not ensemble.unstable_rows(X).any()
    assert device.portable() is device.portable()
    loaded = load_fitted(tmp_path, device.save(tmp_path))
    np.testing.assert_array_equal(loaded.predict(X).output, ensemble.predict(X).output)
    np.testing.assert_array_equal(device.row_estimator("numpy")(X).output, ensemble.predict(X).output)
    copy_of_device = pickle.loads(pickle.dumps(device))
    np.testing.assert_array_equal(copy_of_device.portable().predict(X).output, ensemble.predict(X).output)


SERVE = """
import json, sys
absent = sys.argv[2].split(",")
for name in absent:
    sys.modules[name] = None  # importing it raises ImportError
import numpy as np
from tests.models.folder_files import load_fitted
folder = sys.argv[1]
model = load_fitted(folder, json.load(open(folder + "/description.json")))
X = np.load(folder + "/X.npy")
np.save(folder + "/served.npy", [model.predict(X).output, model.row_estimator("numpy")(X).output])
"""


def test_only_the_libraries_of_the_members_are_needed(
    ensembles: dict[str, FittedEnsemble], tables: dict[str, Data], tmp_path: Path
) -> None:
    whole, X = ensembles["binary"], tables["binary"].X_test
    trees, linear, _ = whole.members
    ensemble = replace(whole, estimator=(replace(trees, weight=0.6), replace(linear, weight=0.4)))
    (tmp_path / "description.json").write_text(json.dumps(ensemble.save(tmp_path)))
    np.save(tmp_path / "X.npy", X)
    absent = "xgboost,sklearn,skops,scipy,pandas,pyarrow,numba,torch,onnxruntime"
    command = [sys.executable, "-c", SERVE, str(tmp_path), absent]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = ensemble.predict(X).output
    np.testing.assert_array_equal(np.load(tmp_path / "served.npy"), [expected, expected])


Edit = Callable[[dict[str, Any]], None]


def put(*path: Any, value: Any) -> Edit:
    def edit(description: dict[str, Any]) -> None:
        inner: Any = description["members"]
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return edit


def nested(description: dict[str, Any]) -> None:
    description["members"][0]["models"][0] = copy.deepcopy(description)


EDITS: dict[str, tuple[Edit, str]] = {
    "no members": (lambda d: d.update(members=[]), "expected members with models"),
    "members of text": (lambda d: d.update(members="abc"), "estimator.members: expected a list; found 'abc'"),
    "absent members": (lambda d: d.pop("members"), "expected members with models"),
    "another key": (put(0, "more", value=1), r"members\[0\]\.more: unknown entry"),
    "no models": (put(1, "models", value=[]), "expected members with models"),
    "an empty label": (put(1, "label", value=""), "expected members with models"),
    "two labels": (put(1, "label", value="trees"), "same label"),
    "many models": (lambda d: d["members"].extend([
        {**d["members"][1], "label": str(i), "models": d["members"][1]["models"] * 100} for i in range(4)]),
        "at most 1,000 models; found 1,206"),
    "a negative weight": (put(1, "weight", value=-0.3), r"weights in \(0, 1\]"),
    "a boolean weight": (put(1, "weight", value=True), r"members\[1\]\.weight: expected a finite number; found true"),
    "a large weight": (put(1, "weight", value=10**400), r"members\[1\]\.weight: expected a finite number"),
    "a weight of text": (put(1, "weight", value="0.3"), r"members\[1\]\.weight: expected a finite number"),
    "another sum": (put(1, "weight", value=0.31), "sum to 1; they sum to 1.01"),
    "no columns": (put(1, "columns", value=[]), r"columns of a member in \[0, 30\)"),
    "a column after the last": (put(1, "columns", value=[7, 0, 30]), r"columns of a member in \[0, 30\)"),
    "a negative column": (put(1, "columns", value=[7, 0, -1]), r"columns of a member in \[0, 30\)"),
    "a fractional column": (put(1, "columns", value=[7, 0, 3.0]), r"columns\[2\]: expected an integer; found 3\.0"),
    "a column twice": (put(1, "columns", value=[7, 0, 0]), "reads a column twice"),
    "fewer columns": (put(1, "columns", value=[7, 0]), "member-2-1-estimator.npz is not a valid"),
    "a model of text": (put(1, "models", 0, value="linear"), r"models\[0\]: expected an object"),
    "no classes": (put(1, "models", 0, "classes", value=None), "classes: expected a list; found null"),
    "another class": (put(1, "models", 0, "classes", value=[0, 2]), "distinct class codes"),
    "another library": (put(1, "models", 0, "library", value="abc"), "unknown library 'abc'"),
    "a model of another member": (put(1, "models", 0, "library", value="xgboost"), "estimator's file is missing"),
    "an ensemble of ensembles": (nested, "unknown library 'ensemble'"),
    "another model": (lambda d: d["members"][1]["models"].append(d["members"][1]["models"][0]),
        "estimator's file is missing"),
    "another task": (lambda d: d.update(task="regression", n_classes=0, classes=[]), "the task regression has no"),
    "no target": (lambda d: d.update(task="clustering", n_classes=0, classes=[]), "found the task clustering"),
    "no names": (lambda d: d.update(feature_names=[]), "columns have no names"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_a_malformed_description_is_refused(name: str, saved: tuple[Path, Any]) -> None:
    folder, description = saved
    edit, message = EDITS[name]
    changed = copy.deepcopy(description)
    edit(changed)
    with pytest.raises(ArtifactError, match=message):
        load_fitted(folder, changed)


def test_a_damaged_file_of_a_member_is_named(saved: tuple[Path, Any], tmp_path: Path) -> None:
    folder, description = saved
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    damaged = tmp_path / "member-3-1-estimator.skops"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.raises(ArtifactError) as refused:
        load_fitted(tmp_path, description)
    assert refused.value.where == str(damaged)


def test_a_model_whose_output_has_another_shape_is_refused(
    ensembles: dict[str, FittedEnsemble], tables: dict[str, Data]
) -> None:
    """A term of shape (n, 1) would otherwise be broadcast to (n, n)."""
    ensemble, X = ensembles["regression"], tables["regression"].X_test

    class Odd(OnDevice):
        def predict(self, X: Any) -> Prediction:
            return Prediction("regression", value=np.zeros((len(X), 1)))

    odd = EnsembleMember("odd", "odd", 0.5, (0,), (Odd(None, "regression"),))
    with pytest.raises(ValueError, match="the estimator returned"):
        replace(ensemble, estimator=(odd, *ensemble.members)).predict(X)

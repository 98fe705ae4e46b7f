"""Models trained on a device, with scikit-learn's estimators instead of cuML's: predictions, artifacts, fallbacks.

The estimators compute on the host. The tests cover a model from training to its portable form and the transfers
between device and host; tests/gpu covers the GPU libraries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.backends.gpu import estimators as gpu_estimators
from gpupipe.backends.gpu.portable import gaussian_nb
from gpupipe.errors import ConfigError, DeviceError
from gpupipe.models import MODELS, FittedModel, Prediction, fit
from gpupipe.models.device import fitted as fitted_device
from gpupipe.models.device.fitted import DeviceModel, DeviceXGBoost, HostModel
from gpupipe.models.device.training import fit_penalty
from gpupipe.models.linear.fitted import FittedLinear
from gpupipe.models.xgboost.fitted import FittedXGBoost
from tests.models.folder_files import load_fitted

ALONE = ("best", "estimator")
CASES = [(name, task) for name, model in MODELS.items() for task in sorted(model.tasks) if name not in ALONE]
TWINS = [(n, task) for n, task in CASES if MODELS.get(n)().estimator_name(task) in gpu_estimators.ESTIMATORS]
PARAMS: dict[str, dict[str, Any]] = {
    "lasso": {"alpha": 0.5},
    "elastic_net": {"alpha": 0.1},
    "random_forest": {"n_estimators": 10},
    "hist_gradient_boosting": {"max_iter": 5},
    "xgboost": {"n_estimators": 10, "max_depth": 3},
    "kmeans": {"n_clusters": 3},
    "pca": {"n_components": 3},
}


class StandIn(CpuBackend):
    """A device whose memory is the host's: it keeps count of what is moved, and says what it cannot do."""

    name: Literal["cpu", "gpu"] = "gpu"

    def __init__(self, fallback: str) -> None:
        super().__init__()
        self.fallback = fallback
        self.to_host_bytes = 0
        self.to_device_dtypes: list[str] = []
        self.notes: list[str] = []

    def estimator(self, name: str, params: Mapping[str, Any]) -> Any:
        row = gpu_estimators.ESTIMATORS[name]
        assert set(row.translate(params)) <= row.passed
        plain = super().estimator(name, params)
        if row.library == "cuml":
            plain.__class__ = _as_of_cuml(type(plain))
        return plain

    def to_host(self, array: Any) -> Any:
        self.to_host_bytes += getattr(array, "nbytes", 0)
        return super().to_host(array)

    def to_device(self, array: Any) -> Any:
        if array.ndim == 1:
            self.to_device_dtypes.append(str(array.dtype))
        return array

    def fall_back(self, what: str, where: str, fix: str) -> None:
        if self.fallback == "forbid":
            raise DeviceError(what, where=where, fix=fix)
        self.notes.append(f"{what} ({where})")


def _as_of_cuml(cls: type) -> type:
    """Return `cls` with the method that makes estimators of cuML's into scikit-learn's."""

    def as_sklearn(estimator: Any) -> Any:
        twin = cls()
        twin.__dict__.update(estimator.__dict__)
        return twin

    return type(cls.__name__, (cls,), {"as_sklearn": as_sklearn})


@pytest.fixture(params=["forbid", "allow"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setattr("gpupipe.backends.gpu.estimators._xgboost_knows_cuda", lambda: True)
    monkeypatch.setattr("gpupipe.backends.gpu.portable.gaussian_nb", _gaussian_nb_of_a_stand_in)
    return StandIn(request.param)


def _gaussian_nb_of_a_stand_in(estimator: Any, to_host: Any) -> Any:
    estimator.sigma_ = estimator.var_  # cuML's name
    return gaussian_nb(estimator, to_host)


def _fit(name: str, data: Any, device: StandIn, **params: Any) -> FittedModel:
    model = MODELS.get(name)(**PARAMS.get(name, {}) | params)
    return fit(model, data.X, data.y, replace(data.context, backend=device))


def _assert_close(one: Prediction, other: Prediction) -> None:
    before, after = one.arrays, other.arrays
    assert before.keys() == after.keys()
    for name, values in before.items():
        assert values.dtype == after[name].dtype
        np.testing.assert_allclose(values, after[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "task"), TWINS)
@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_a_model_of_the_device_predicts_there_and_its_saved_form_predicts_the_same(
    name: str, task: str, device: StandIn, tables: dict[str, Any], tmp_path: Path
) -> None:
    data = tables[task]
    fitted = _fit(name, data, device)
    assert all(isinstance(model, DeviceModel) for model in fitted.models)
    assert device.to_host_bytes == 0
    predicted = fitted.predict(data.X_test)
    assert device.to_host_bytes == 0  # the predictions stay there too
    description = fitted.save(tmp_path)
    _assert_close(predicted, load_fitted(tmp_path, description).predict(data.X_test))
    assert device.notes == []


@pytest.mark.parametrize(("name", "task"), TWINS)
@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_the_target_goes_to_the_device_in_the_dtype_of_its_library(
    name: str, task: str, device: StandIn, tables: dict[str, Any]
) -> None:
    _fit(name, tables[task], device)
    row = gpu_estimators.ESTIMATORS[MODELS.get(name)().estimator_name(task)]  # type: ignore[arg-type]
    numbers = {
        "regression": [row.dtype], "quantile": 3 * [row.dtype], "ranking": [row.dtype, "int32", "int64", "int64"],
        "clustering": [], "embedding": [],
    }  # fmt: skip
    expected = numbers.get(task, ["int32"])
    assert device.to_device_dtypes == expected


@pytest.mark.parametrize(("name", "task"), TWINS)
@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_a_prediction_in_batches_equals_one_of_all_rows(
    name: str, task: str, device: StandIn, tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = _fit(name, tables[task], device)
    whole = fitted.predict(tables[task].X_test)
    monkeypatch.setattr(fitted_device, "BLOCK_ROWS", 7)
    _assert_close(whole, fitted.predict(tables[task].X_test))


def _as_cuml_finds_neighbours(twin: Any, X: Any, metric: str) -> tuple[Any, Any]:
    """Return float32 distances and neighbours, the last of several that are as near."""
    a, x, k = np.asarray(twin._fit_X, np.float32), X.astype(np.float32), twin.n_neighbors
    if metric == "manhattan":
        distance = np.abs(x[:, None] - a[None]).sum(axis=2, dtype=np.float32)
    else:
        products = x @ a.T
        lengths = [(rows * rows).sum(axis=1, dtype=np.float32) for rows in (x, a)]
        if metric == "cosine":
            distance = np.float32(1) - products / np.sqrt(lengths[0])[:, None] / np.sqrt(lengths[1])
        else:
            distance = np.sqrt(np.maximum(lengths[0][:, None] + lengths[1] - 2 * products, 0))
    found = distance.shape[1] - 1 - np.argsort(distance[:, ::-1], axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distance, found, axis=1), found


@pytest.mark.parametrize("metric", ["minkowski", "cosine", "manhattan"])
@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_rows_that_float32_distances_predict_otherwise_are_known(
    device: StandIn, tables: dict[str, Any], metric: str, weights: str
) -> None:
    data, rng = tables["regression"], np.random.default_rng(0)
    X = rng.choice(np.arange(40, dtype=np.float32), (500, 3)) * np.float32(0.1)  # many are as near
    served = np.asfortranarray(np.concatenate([X[:50], X[50:250] + rng.normal(0, 0.5, (200, 3)).astype(np.float32)]))
    model = MODELS.get("knn")(metric=metric, weights=weights)
    fitted = fit(model, np.asfortranarray(X), rng.normal(size=500), replace(data.context, backend=device))
    twin = fitted.portable().estimator
    distance, found = _as_cuml_finds_neighbours(twin, served, metric)
    with np.errstate(divide="ignore"):
        shares = 1 / distance.astype(np.float64) if weights == "distance" else np.ones_like(distance, np.float64)
    exact = ~np.isfinite(shares).all(axis=1)
    shares[exact] = np.isinf(shares[exact])
    there = (shares * twin._y[found]).sum(axis=1) / shares.sum(axis=1)
    differs = np.abs(there - fitted.predict(served).value) > 1e-4 * np.abs(twin._y).max()
    unstable = fitted.unstable_rows(served)
    assert differs.sum() > 2
    assert not (differs & ~unstable).any()
    assert (~unstable).sum() > 10


@pytest.mark.parametrize("name", ["hist_gradient_boosting", "linear_svc"])
def test_a_model_without_a_device_version_is_trained_on_the_host_or_refused(
    name: str, device: StandIn, tables: dict[str, Any], tmp_path: Path
) -> None:
    data = tables["binary"]
    if device.fallback == "forbid":
        with pytest.raises(DeviceError, match="cuML") as error:
            _fit(name, data, device)
        assert error.value.fix.startswith("use the model ")
        return
    fitted = _fit(name, data, device)
    assert isinstance(fitted, HostModel)
    assert device.to_host_bytes == data.X.nbytes
    predicted = fitted.predict(data.X_test)
    assert device.to_host_bytes == data.X.nbytes + data.X_test.nbytes
    assert [note.rpartition(" (")[2] for note in device.notes] == [
        f"models: {name})",
        "predict)",
    ]
    on_host = fit(MODELS.get(name)(**PARAMS.get(name, {})), data.X, data.y, data.context)
    np.testing.assert_array_equal(predicted.probability, on_host.predict(data.X_test).probability)
    assert fitted.importances() == on_host.importances()
    loaded = load_fitted(tmp_path, fitted.save(tmp_path))
    np.testing.assert_array_equal(loaded.predict(data.X_test).probability, predicted.probability)


def test_an_estimator_of_the_user_is_trained_on_the_host_or_refused(
    device: StandIn, tables: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("from sklearn.ensemble import ExtraTreesClassifier as make\n")
    data, use = tables["binary"], f"{tmp_path}/mine.py:make"
    if device.fallback == "forbid":
        with pytest.raises(DeviceError, match="a custom estimator is a scikit-learn object"):
            _fit("estimator", data, device, use=use)
        return
    fitted = _fit("estimator", data, device, use=use)
    assert isinstance(fitted, HostModel) and device.to_host_bytes == data.X.nbytes
    assert device.notes[0].endswith("(models: estimator)")
    on_host = fit(MODELS.get("estimator")(use=use), data.X, data.y, data.context)
    expected = on_host.predict(data.X_test).probability
    np.testing.assert_array_equal(fitted.predict(data.X_test).probability, expected)


def test_a_parameter_that_the_device_lacks_is_honoured_on_the_host_or_refused(
    device: StandIn, tables: dict[str, Any]
) -> None:
    data = tables["regression"]
    if device.fallback == "forbid":
        with pytest.raises(DeviceError, match="criterion: 'absolute_error'"):
            _fit("random_forest", data, device, criterion="absolute_error")
    else:
        fitted = _fit("random_forest", data, device, criterion="absolute_error", max_depth=2)
        assert fitted.portable().estimator.criterion == "absolute_error"


def test_a_forest_with_missing_values_falls_back_or_is_refused(device: StandIn, tables: dict[str, Any]) -> None:
    data = tables["binary"]
    X = data.X.copy(order="F")
    X[3, 1] = np.nan
    whole, holed = _fit("random_forest", data, device), replace(data, X=X)
    if device.fallback == "forbid":
        with pytest.raises(DeviceError, match="missing values; found some in mean_texture") as error:
            _fit("random_forest", holed, device)
        assert "impute" in error.value.fix
        with pytest.raises(DeviceError, match="missing values"):
            whole.predict(X)
    else:
        assert isinstance(_fit("random_forest", holed, device), HostModel)
        expected = whole.portable().predict(X).probability
        np.testing.assert_array_equal(whole.predict(X).probability, expected)
        assert [note.rpartition(" (")[2] for note in device.notes] == ["models: random_forest)", "predict)"]


@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_importances_are_those_that_the_device_measured(device: StandIn, tables: dict[str, Any]) -> None:
    fitted = _fit("random_forest", tables["binary"], device)
    importances = fitted.importances()
    assert importances == pytest.approx(fitted.portable().importances())
    assert sum(importances.values()) == pytest.approx(1)  # type: ignore[union-attr]


@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_a_forest_without_impurities_has_no_importances(device: StandIn, tables: dict[str, Any]) -> None:
    portable = _fit("random_forest", tables["binary"], device).portable()
    for tree in portable.estimator.estimators_:  # as treelite exports them
        tree.tree_.impurity[:] = np.nan
    assert portable.importances() is None


@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_the_notes_say_how_the_model_differs(device: StandIn, tables: dict[str, Any]) -> None:
    assert "128 quantiles" in _fit("random_forest", tables["binary"], device).notes[0]
    assert _fit("ridge", tables["regression"], device).notes == ()


@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_the_portable_forms_need_no_library_of_the_device(device: StandIn, tables: dict[str, Any]) -> None:
    assert isinstance(_fit("logistic_regression", tables["binary"], device).portable(), FittedLinear)
    boosted = _fit("xgboost", tables["binary"], device)
    assert isinstance(boosted, DeviceXGBoost)
    assert isinstance(boosted.portable(), FittedXGBoost)
    assert boosted.portable() is boosted.portable()


@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_early_stopping_holds_out_the_same_rows_and_trains_again_on_the_device(
    device: StandIn, tables: dict[str, Any]
) -> None:
    data = tables["regression"]
    stopping = {"n_estimators": 200, "early_stopping_rounds": 5, "validation_fraction": 0.3}
    fitted = _fit("xgboost", data, device, **stopping)
    # The numbers of two sets of rows, their targets, then that of all rows: the matrix is never on the host.
    assert device.to_device_dtypes == ["int32", "int32", "float32", "float32", "float32"]
    on_host = fit(MODELS.get("xgboost")(max_depth=3, **stopping), data.X, data.y, data.context)
    assert fitted.notes == on_host.notes
    for model in (fitted, fitted.portable()):
        np.testing.assert_allclose(model.predict(data.X_test).output, on_host.predict(data.X_test).output, rtol=1e-5)


@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_weights_reach_the_device_with_the_matrix_s_dtype(device: StandIn, tables: dict[str, Any]) -> None:
    data = tables["binary"]
    plain = _fit("logistic_regression", data, device, solver="lbfgs")
    for solver, dtype in (("lbfgs", "float32"), ("newton-cholesky", "float64")):  # the second as on the host
        device.to_device_dtypes = []
        balanced = _fit("logistic_regression", data, device, class_weight="balanced", solver=solver)
        assert device.to_device_dtypes == ["int32", dtype]
        moved = balanced.predict(data.X_test).output - plain.predict(data.X_test).output
        assert np.abs(moved).max() > 1e-3


@pytest.mark.parametrize("device", ["forbid"], indirect=True)
def test_data_that_the_library_rejects_is_a_configuration_error(device: StandIn, tables: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="cannot train KMeans on"):
        _fit("kmeans", tables["clustering"], device, n_clusters=100_000)


def test_a_model_of_the_host_is_its_own_portable_form(tables: dict[str, Any]) -> None:
    data = tables["regression"]
    fitted = fit(MODELS.get("ridge")(), data.X, data.y, data.context)
    assert fitted.portable() is fitted
    assert fitted.notes == ()


def test_weights_leave_a_logistic_regression_of_cuml_the_penalty_that_scikit_learn_has(tables: dict[str, Any]) -> None:
    """cuML minimises ``sum(w * loss) / sum(w) + |b|**2 / (2 * C * n)``: what it is given for C must make up for it."""
    from scipy.optimize import minimize
    from sklearn.linear_model import LogisticRegression

    X, y = tables["binary"].X[:, :4].astype(np.float64), tables["binary"].y
    X, sign = (X - X.mean(axis=0)) / X.std(axis=0), 2.0 * (y == 1) - 1
    weights = np.where(y == 1, 6.0, 2.0)
    estimator = SimpleNamespace(C=0.01, penalty_normalized=True)
    fit_penalty(estimator, weights)

    def loss_of_cuml(b: Any) -> float:
        losses = np.logaddexp(0, -sign * (X @ b[:-1] + b[-1]))
        return float((weights * losses).sum() / weights.sum() + b[:-1] @ b[:-1] / (2 * estimator.C * len(X)))

    on_host = LogisticRegression(C=0.01, tol=1e-8).fit(X, y, sample_weight=weights)
    found = minimize(loss_of_cuml, np.zeros(X.shape[1] + 1), tol=1e-10).x
    np.testing.assert_allclose(found, [*on_host.coef_[0], *on_host.intercept_], atol=1e-4)


def test_without_weights_and_in_other_models_nothing_becomes_of_the_penalty() -> None:
    for estimator, weights in (
        (SimpleNamespace(C=2.0, penalty_normalized=True), None),
        (SimpleNamespace(C=2.0), np.array([3])),
    ):
        fit_penalty(estimator, weights)
        assert estimator.C == 2.0

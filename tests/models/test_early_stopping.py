"""Early stopping: the rows held out, the round found on them, and the training on all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from xgboost import XGBClassifier, XGBRegressor

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.models import MODELS, FitContext, Resources, fit
from gpupipe.models.context import DeadlineReached, ValidationRows
from gpupipe.models.early_stopping import draw_validation_rows
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.xgboost import row_blocks
from gpupipe.random_streams import derive_seed
from tests.examples import examples

MODEL_SEED = derive_seed(7, "model")

CPU = CpuBackend()
# The library's classes, and their parameters for a training that stops early.
XGBOOST = {"max_depth": 3, "learning_rate": 0.3, "random_state": MODEL_SEED}
STOPPED: dict[str, dict[str, Any]] = {
    "xgboost": {"early_stopping_rounds": 8},
    "hist_gradient_boosting": {"early_stopping": True},
}
PARAMS: dict[str, dict[str, Any]] = {
    "xgboost": {"n_estimators": 90, "max_depth": 3, "learning_rate": 0.3, "validation_fraction": 0.25},
    "hist_gradient_boosting": {
        "max_iter": 60, "learning_rate": 0.3, "n_iter_no_change": 8, "validation_fraction": 0.25, "tol": 0,
    },
}  # fmt: skip


def values(found: Prediction) -> Any:
    return found.value if found.task == "regression" else found.probability


def library(name: str, task: str, n_rounds: int | None = None) -> Any:
    """Return the library's estimator: of `n_rounds` rounds, or with early stopping."""
    if name == "xgboost":
        stop = {"n_estimators": 90, "early_stopping_rounds": 8} if n_rounds is None else {"n_estimators": n_rounds}
        return (XGBClassifier if task == "binary" else XGBRegressor)(**XGBOOST, **stop)
    stop = {"max_iter": 60, "early_stopping": True} if n_rounds is None else {"max_iter": n_rounds}
    kind = HistGradientBoostingClassifier if task == "binary" else HistGradientBoostingRegressor
    params = {
        "early_stopping": False,
        "learning_rate": 0.3,
        "n_iter_no_change": 8,
        "tol": 0.0,
        "random_state": MODEL_SEED,
    }
    return kind(**params | stop)


def best_rounds(name: str, task: str, X: Any, y: Any, X_val: Any, y_val: Any) -> int:
    """Return the number of rounds that the library finds on the validation rows."""
    if name == "xgboost":
        found = library(name, task).fit(X, y, eval_set=[(X_val, y_val)], verbose=False)
        return int(found.best_iteration) + 1
    found = library(name, task).fit(X, y, X_val=X_val, y_val=y_val)
    return int(found.validation_score_[1:].argmax()) + 1


def predicted(estimator: Any, task: str, X: Any) -> Any:
    return estimator.predict_proba(X)[:, 1] if task == "binary" else estimator.predict(X)


@pytest.mark.parametrize("task", ["binary", "regression"])
@pytest.mark.parametrize("name", list(PARAMS))
def test_the_model_is_trained_again_on_all_rows(name: str, task: str, tables: dict[str, Any]) -> None:
    data = tables[task]
    model = MODELS.get(name)(**PARAMS[name], **STOPPED[name])
    fitted = fit(model, data.X, data.y, data.context)
    held = draw_validation_rows(data.y, 0.25, data.context)
    assert held.sum() == pytest.approx(0.25 * len(data.y), abs=1)
    n = best_rounds(name, task, data.X[~held], data.y[~held], data.X[held], data.y[held])
    assert 1 < n < 60
    expected = predicted(library(name, task, n).fit(data.X, data.y), task, data.X_test)
    np.testing.assert_allclose(values(fitted.predict(data.X_test)), expected, rtol=1e-6)
    assert f"on {held.sum()} held-out rows; trained again on all {len(data.y)} rows for {n} rounds" in fitted.notes[-1]


@pytest.mark.parametrize("task", ["binary", "regression"])
@pytest.mark.parametrize("name", list(PARAMS))
def test_given_validation_rows_choose_the_round_and_are_never_trained_on(
    name: str, task: str, tables: dict[str, Any]
) -> None:
    data = tables[task]
    context = replace(data.context, validation=ValidationRows(data.X_test, data.y_test))
    fitted = fit(MODELS.get(name)(**PARAMS[name], **STOPPED[name]), data.X, data.y, context)
    n = best_rounds(name, task, data.X, data.y, data.X_test, data.y_test)
    expected = predicted(library(name, task, n).fit(data.X, data.y), task, data.X_test)
    np.testing.assert_allclose(values(fitted.predict(data.X_test)), expected, rtol=1e-6)
    assert f"best round {n} of" in fitted.notes[-1] and "again" not in fitted.notes[-1]


@pytest.mark.parametrize("name", list(PARAMS))
def test_without_early_stopping_validation_rows_have_no_effect(name: str, tables: dict[str, Any]) -> None:
    data = tables["binary"]
    context = replace(data.context, validation=ValidationRows(data.X_test, data.y_test))
    model = MODELS.get(name)(**PARAMS[name])
    found, expected = (fit(model, data.X, data.y, each).predict(data.X_test) for each in (context, data.context))
    np.testing.assert_array_equal(values(found), values(expected))


@pytest.mark.parametrize("name", list(PARAMS))
def test_weights_decide_the_best_round_too(name: str, tables: dict[str, Any]) -> None:
    """A row of weight 2 is the same as two rows, in training and in the loss of the held-out rows."""
    data = tables["regression"]
    X, y, X_val, y_val = data.X[:200], data.y[:200], data.X[200:], data.y[200:]
    twice = np.repeat(np.arange(len(y_val)), 1 + np.arange(len(y_val)) % 2)
    model = MODELS.get(name)(**PARAMS[name], **STOPPED[name])
    weighted = ValidationRows(X_val, y_val, 1.0 + np.arange(len(y_val)) % 2)
    repeated = ValidationRows(np.asfortranarray(X_val[twice]), y_val[twice])
    found, expected = (
        fit(model, X, y, replace(data.context, validation=rows)).predict(data.X_test) for rows in (weighted, repeated)
    )
    np.testing.assert_array_equal(values(found), values(expected))


def test_a_class_that_the_training_rows_lack_is_ignored_in_validation_rows(tables: dict[str, Any]) -> None:
    data = tables["multiclass"]
    known = data.y != 0
    context = replace(data.context, validation=ValidationRows(data.X_test, data.y_test))
    for name in PARAMS:
        model = MODELS.get(name)(**PARAMS[name], **STOPPED[name])
        fitted = fit(model, data.X[known], data.y[known], context)
        assert f"on {(data.y_test != 0).sum()} held-out rows" in fitted.notes[-1]


def test_rows_that_cannot_be_spared_are_not_held_out(tables: dict[str, Any]) -> None:
    data = tables["binary"]
    rows = [int(np.flatnonzero(data.y == 0)[0]), int(np.flatnonzero(data.y == 1)[0])]
    model = MODELS.get("xgboost")(n_estimators=3, early_stopping_rounds=2)
    fitted = fit(model, np.asfortranarray(data.X[rows]), data.y[rows], data.context)
    assert fitted.notes == ("no row could be held out for early stopping: all rounds were trained",)
    assert fitted.estimator.num_boosted_rounds() == 3


@given(
    codes=st.lists(st.integers(0, 3), min_size=1, max_size=60),
    share=st.floats(0.01, 0.9),
    groups=st.none() | st.integers(1, 5),
    is_timed=st.booleans(),
    seed=st.integers(0, 5),
)
@examples(60)
def test_held_out_rows_are_other_groups_or_later_and_leave_every_class(
    codes: list[int], share: float, groups: int | None, is_timed: bool, seed: int
) -> None:
    y = np.array(codes, float)
    group = None if groups is None else np.random.default_rng(seed).integers(0, groups, len(y))
    time = np.random.default_rng(seed + 1).integers(0, 9, len(y)) if is_timed else None
    context = FitContext(CPU, "multiclass", seed, 4, groups=group, times=time)
    held = draw_validation_rows(y, share, context)
    assert set(y[~held]) == set(y)
    np.testing.assert_array_equal(held, draw_validation_rows(y, share, context))
    if group is None and time is not None and held.any():
        drawn = np.isin(y, np.unique(y[held]))
        # Rows of a class that would be lost stay, however late they are.
        assert time[held].min() >= time[~held & drawn].min()


def test_groups_are_not_divided(tables: dict[str, Any]) -> None:
    groups = np.arange(300) % 30
    context = FitContext(CPU, "regression", 3, groups=groups)
    held = draw_validation_rows(np.zeros(300), 0.2, context)
    assert 0 < held.sum() < 300
    assert not set(groups[held]) & set(groups[~held])


def test_the_latest_rows_are_held_out() -> None:
    times = np.random.default_rng(0).permutation(100).astype("datetime64[s]").astype(np.int64)
    held = draw_validation_rows(np.zeros(100), 0.2, FitContext(CPU, "regression", 3, times=times))
    np.testing.assert_array_equal(held, times >= 80)


def test_classes_are_held_out_in_proportion() -> None:
    y = (np.arange(1000) % 10 == 0).astype(float)
    held = draw_validation_rows(y, 0.2, FitContext(CPU, "binary", 0, 2))
    assert (held.sum(), y[held].sum()) == (200, 20)


@pytest.mark.parametrize("name", ["catboost", "hist_gradient_boosting", "lightgbm", "xgboost"])
def test_a_safe_point_stops_a_training_after_any_round(name: str) -> None:
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(200, 2)), np.float32)
    stopping = MODELS.get(name)().for_task("regression")
    seen: list[str] = []

    def stop(where: str) -> None:
        seen.append(where)
        if len(seen) == 3:
            raise KeyboardInterrupt

    context = FitContext(CPU, "regression", 0, resources=Resources(safe_point=stop))
    with pytest.raises(KeyboardInterrupt):
        fit(stopping, X, X[:, 0].astype(np.float64), context)
    assert len(seen) == 3


# Parameters with which every round improves the held-out rows, and the patience.
LEARNERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "xgboost": ({"n_estimators": 200, "learning_rate": 0.05}, {"early_stopping_rounds": 50}),
    "lightgbm": ({"n_estimators": 200, "learning_rate": 0.05}, {"early_stopping_rounds": 50}),
    "catboost": ({"iterations": 200, "learning_rate": 0.05}, {"early_stopping_rounds": 50}),
    "hist_gradient_boosting": ({"max_iter": 200, "learning_rate": 0.05}, {"early_stopping": True}),
}


def clean(n: int) -> tuple[Any, Any]:
    X = np.asfortranarray(np.random.default_rng(3).normal(size=(n, 4)), np.float32)
    return X, X[:, 0] + X[:, 1] ** 2


def ends_after(n: int, unit: str = "round") -> Resources:
    def safe_point(where: str) -> None:
        if int(where.rpartition(" ")[2]) >= n and unit in where:
            raise DeadlineReached

    return Resources(safe_point=safe_point)


@pytest.mark.parametrize("name", list(LEARNERS))
def test_a_deadline_keeps_the_best_of_the_rounds_so_far(name: str) -> None:
    pytest.importorskip(name.removesuffix("_gradient_boosting").replace("hist", "sklearn"))
    X, y = clean(700)
    params, stop = LEARNERS[name]
    context = FitContext(CPU, "regression", 3, 0, {}, list("abcd"))
    validation = ValidationRows(X[500:], y[500:])
    found: list[Any] = []
    timed = replace(context, validation=validation, resources=ends_after(20), report_rounds=found.append)
    ended = fit(MODELS.get(name)(**params, **stop), X[:500], y[:500], timed)
    assert found[0].trained == 20
    assert found[0].best in (19, 20)  # XGBoost does not compare the last round
    rounds = MODELS.get(name)(**params).with_rounds(found[0].best)
    fixed = fit(rounds, X[:500], y[:500], context)
    np.testing.assert_allclose(values(ended.predict(X)), values(fixed.predict(X)), rtol=1e-6)


@pytest.mark.parametrize("name", list(LEARNERS))
def test_a_deadline_without_a_round_to_keep_is_an_error(name: str) -> None:
    pytest.importorskip(name.removesuffix("_gradient_boosting").replace("hist", "sklearn"))
    X, y = clean(300)
    params, stop = LEARNERS[name]
    context = FitContext(CPU, "regression", 3, 0, {}, list("abcd"), resources=ends_after(3))
    timed = replace(context, validation=ValidationRows(X[200:], y[200:]))
    with pytest.raises(DeadlineReached):
        fit(MODELS.get(name)(**params, **stop), X[:200], y[:200], timed)
    if name != "hist_gradient_boosting":  # it has no safe points without held-out rows
        late = replace(context, resources=ends_after(20))
        with pytest.raises(DeadlineReached):  # no early stopping, so the rounds so far are not a result
            fit(MODELS.get(name)(**params), X[:200], y[:200], late)


def test_a_deadline_keeps_the_best_epoch_so_far() -> None:
    pytest.importorskip("torch")
    X, y = clean(300)
    context = FitContext(CPU, "regression", 3, 0, {}, list("abcd"), validation=ValidationRows(X[200:], y[200:]))
    model = MODELS.get("mlp")(epochs=50, width=8, depth=1)
    ended = fit(model, X[:200], y[:200], replace(context, resources=ends_after(4, "epoch")))
    whole = fit(model.model_copy(update={"epochs": 50}), X[:200], y[:200], context)
    assert ended.history == whole.history[:4]
    calls = iter(range(50))

    def after_four_calls(where: str) -> None:
        if next(calls) >= 3:
            raise DeadlineReached

    late = replace(context, validation=None, resources=Resources(safe_point=after_four_calls))
    with pytest.raises(DeadlineReached):  # in the second training, on all rows, which has no epoch to choose
        fit(model, X, y, late)


@pytest.mark.parametrize("name", ["xgboost", "hist_gradient_boosting"])
@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_rows_read_in_parts_give_the_model_of_a_copy(name: str, task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 300)
    rng = np.random.default_rng(3)
    X = np.asfortranarray(rng.normal(size=(2_000, 4)), dtype=np.float32)
    X[:, 1] = rng.integers(0, 9, len(X))
    X[rng.random(len(X)) < 0.1, 2] = np.nan
    y = X[:, 0] + X[:, 1] % 3 + rng.normal(size=len(X))
    y = y if task == "regression" else np.digitize(y, [0, 2]).astype(np.float64)
    weights = rng.uniform(0.1, 3.0, len(X))
    context = FitContext(CPU, task, 7, 3, {1: 9}, list("abcd"), ["0", "1", "2"], weights=weights)
    kind = MODELS.get(name)
    copied: list[Any] = []
    take_rows = CpuBackend.take_rows

    def take(backend: CpuBackend, X: Any, rows: Any) -> Any:
        copied.append(rows)
        return take_rows(backend, X, rows)

    monkeypatch.setattr(CpuBackend, "take_rows", take)
    in_parts = fit(kind(**PARAMS[name], **STOPPED[name]), X, y, context)
    assert not copied
    monkeypatch.setattr(kind, "reads_selected_rows", lambda model, task: False)
    of_a_copy = fit(kind(**PARAMS[name], **STOPPED[name]), X, y, context)
    assert copied
    assert in_parts.notes == of_a_copy.notes
    np.testing.assert_array_equal(in_parts.predict(X).output, of_a_copy.predict(X).output)

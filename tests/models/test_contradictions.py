"""Parameters that contradict each other: a default gives way, two stated ones are an error, a search avoids them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

import gpupipe as gp
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.config import parse_config
from gpupipe.errors import ConfigError, DataError
from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.contradictions import Contradiction, ContradictionError, settle
from gpupipe.models.search_space import with_values
from gpupipe.tasks import Task

RULES = (Contradiction("mode", ("own",), "share", (1.0,), "plain"), Contradiction("mode", ("own",), "depth", (9,)))
LIBRARY = {"mode": "plain", "share": 1.0, "depth": 3}


@pytest.mark.parametrize(
    ("values", "stated", "found", "n_notes"),
    [
        ({"share": 0.5}, {"share"}, {"share": 0.5}, 0),
        ({"mode": "own", "share": 0.5, "depth": 9}, {"mode", "depth"}, {"mode": "own", "share": 1.0, "depth": 9}, 1),
        ({"mode": "own", "share": 0.5}, {"share"}, {"mode": "plain", "share": 0.5}, 1),
        ({"mode": "own", "share": 0.5}, set(), {"mode": "plain", "share": 0.5}, 1),
    ],
)
def test_a_default_gives_way(values: Any, stated: set[str], found: Any, n_notes: int) -> None:
    settled, notes = settle({**LIBRARY, **values}, stated, LIBRARY, RULES)
    assert settled == {**LIBRARY, **found}
    assert len(notes) == n_notes


@pytest.mark.parametrize("stated", [{"mode", "share", "depth"}, {"mode", "share"}])
def test_stated_values_and_defaults_without_a_way_out_are_errors(stated: set[str]) -> None:
    with pytest.raises(ContradictionError, match="mode: own cannot be combined with"):
        settle({**LIBRARY, "mode": "own", "share": 0.5, "depth": 9}, stated, LIBRARY, RULES)
    with pytest.raises(ContradictionError, match="the default; set depth, or change mode"):
        settle({**LIBRARY, "mode": "own"}, {"mode"}, LIBRARY, RULES)


GIVES_WAY: list[tuple[str, Task, dict[str, Any], dict[str, Any]]] = [
    ("lightgbm", "binary", {"data_sample_strategy": "goss"}, {"subsample": 1.0, "subsample_freq": 0}),
    ("catboost", "binary", {"bootstrap_type": "Bayesian"}, {"subsample": None}),
    ("catboost", "regression", {"bootstrap_type": "No"}, {"subsample": None}),
    ("catboost", "binary", {"bagging_temperature": 0.5}, {"bootstrap_type": "Bayesian", "subsample": None}),
    ("catboost", "multiclass", {"bootstrap_type": None}, {"bootstrap_type": "MVS", "subsample": 0.9}),
    ("catboost", "multiclass", {"subsample": 0.5, "defaults": "library"}, {"bootstrap_type": "MVS"}),
    ("extra_trees", "binary", {"max_samples": 0.5}, {"bootstrap": True}),
    ("extra_trees", "regression", {"max_samples": 20, "defaults": "library"}, {"bootstrap": True}),
    ("logistic_regression", "binary", {"dual": True}, {"solver": "liblinear"}),
]


@pytest.mark.parametrize(("name", "task", "given", "found"), GIVES_WAY)
def test_a_default_that_contradicts_a_stated_value_is_named_and_gives_way(
    name: str, task: Task, given: dict[str, Any], found: dict[str, Any]
) -> None:
    settings = MODELS.get(name)(**given)
    filled = settings.for_task(task)
    assert {field: getattr(filled, field) for field in found} == found
    assert filled.for_task(task) == filled and not filled.default_notes(task)
    notes = " ".join(settings.default_notes(task))
    assert all(f"{field}: " in notes for field in given if field != "defaults")


BOTH: list[tuple[str, dict[str, Any], tuple[str, str]]] = [
    ("lightgbm", {"data_sample_strategy": "goss", "subsample": 0.5, "subsample_freq": 1}, ("goss", "subsample")),
    ("lightgbm", {"data_sample_strategy": "goss", "top_rate": 0.7, "other_rate": 0.6}, ("top_rate", "other_rate")),
    ("lightgbm", {"objective": "quantile", "alpha": 1.5}, ("quantile", "alpha")),
    ("lightgbm", {"objective": "mape", "monotone_constraints": {"a": 1}}, ("mape", "monotone_constraints")),
    ("catboost", {"bootstrap_type": "Bayesian", "subsample": 0.5}, ("Bayesian", "subsample")),
    ("catboost", {"bootstrap_type": "MVS", "bagging_temperature": 1.0}, ("MVS", "bagging_temperature")),
    ("random_forest", {"bootstrap": False, "max_samples": 0.5}, ("bootstrap: false", "max_samples")),
    ("logistic_regression", {"solver": "lbfgs", "l1_ratio": 0.5}, ("lbfgs", "l1_ratio")),
    ("logistic_regression", {"solver": "saga", "dual": True}, ("saga", "dual: true")),
    ("logistic_regression", {"l1_ratio": 0.5, "dual": True}, ("l1_ratio", "dual: true")),
    ("ridge", {"solver": "svd", "positive": True}, ("svd", "positive")),
    ("linear_svc", {"penalty": "l1", "loss": "hinge"}, ("l1", "hinge")),
    ("linear_svc", {"loss": "hinge", "dual": False}, ("hinge", "dual")),
    ("knn", {"metric": "cosine", "algorithm": "kd_tree"}, ("cosine", "kd_tree")),
    ("knn", {"p": 0.5, "algorithm": "ball_tree"}, ("ball_tree", "p: 0.5")),
    ("pca", {"n_components": "mle", "svd_solver": "arpack"}, ("arpack", "mle")),
]


@pytest.mark.parametrize(("name", "given", "named"), BOTH)
def test_two_stated_values_are_an_error_of_the_configuration(
    name: str, given: dict[str, Any], named: tuple[str, str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config({"source": {"path": "t.csv", "target": "y"}, "models": [{name: given}]})
    assert all(word in str(refused.value) for word in named)
    with pytest.raises(ValidationError):
        MODELS.get(name)(**given)


def test_a_search_offers_no_parameter_that_a_stated_one_excludes() -> None:
    def entry(model: dict[str, Any], tune: Any) -> Any:
        return parse_config({"source": {"path": "t.csv", "target": "y"}, "models": [{**model, "tune": tune}]}).models[0]

    assert "subsample" not in entry({"catboost": {"bootstrap_type": "Bayesian"}}, 5).tune.space
    assert "subsample" not in entry({"lightgbm": {"data_sample_strategy": "goss"}}, 5).tune.space
    assert "max_samples" not in entry({"random_forest": {"bootstrap": False}}, 5).tune.space
    assert "subsample" in entry({"catboost": {"bootstrap_type": "MVS"}}, 5).tune.space
    with pytest.raises(ConfigError, match="bootstrap_type: Bayesian excludes other values of subsample"):
        entry({"catboost": {"bootstrap_type": "Bayesian"}}, {"space": {"subsample": [0.5, 0.9]}})


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("lightgbm", {"data_sample_strategy": "goss", "subsample": 0.7}, {"subsample": 1.0, "subsample_freq": 0}),
        ("lightgbm", {"data_sample_strategy": "bagging", "subsample": 0.7}, {"subsample": 0.7, "subsample_freq": 1}),
        ("catboost", {"bootstrap_type": "No", "subsample": 0.7}, {"bootstrap_type": "No", "subsample": None}),
        ("catboost", {"bagging_temperature": 0.7}, {"bootstrap_type": "Bayesian", "subsample": None}),
    ],
)
def test_a_trial_drops_what_its_other_values_exclude(name: str, values: Any, found: Any) -> None:
    trial = with_values(MODELS.get(name)().for_task("binary"), values)
    assert {field: getattr(trial, field) for field in found} == found


LOSSES = [
    ("xgboost", "objective", "reg:gamma", 0.0), ("xgboost", "objective", "reg:tweedie", -0.1),
    ("xgboost", "objective", "count:poisson", -0.1), ("xgboost", "objective", "reg:squaredlogerror", -1.0),
    ("lightgbm", "objective", "gamma", 0.0), ("lightgbm", "objective", "poisson", -0.1),
    ("lightgbm", "objective", "tweedie", -0.1), ("hist_gradient_boosting", "loss", "gamma", 0.0),
    ("hist_gradient_boosting", "loss", "poisson", -0.1), ("random_forest", "criterion", "poisson", -0.1),
    ("extra_trees", "criterion", "poisson", -0.1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "field", "loss", "smallest"), LOSSES)
def test_targets_that_a_loss_does_not_allow_are_errors_of_the_data(
    name: str, field: str, loss: str, smallest: float
) -> None:
    X = np.asfortranarray(np.arange(80.0).reshape(40, 2), np.float32)
    y = np.linspace(1, 2, 40)
    context = FitContext(CpuBackend(), "regression", 1, 0, {}, ["a", "b"])
    few = {"max_iter": 2} if name == "hist_gradient_boosting" else {"n_estimators": 2}
    settings: Any = MODELS.get(name)(**{field: loss}, **few)
    fit(settings, X, y, context)
    y[:3] = smallest
    with pytest.raises(DataError) as refused:
        fit(settings, X, y, context)
    assert f"{field}: {loss} needs targets >" in refused.value.what and "3 of 40" in refused.value.what


def test_a_run_reports_the_default_that_gave_way_and_the_threads(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.normal(size=200), "y": rng.choice(["no", "yes"], 200)})
    goss = {"lightgbm": {"data_sample_strategy": "goss", "n_estimators": 3}}
    pipeline = gp.Pipeline(frame, target="y", models=[goss], report={"enabled": False})
    run = pipeline.run(tmp_path / "run", quiet=True)
    text = "\n".join(map(str, run.notes))
    assert text.count("lightgbm: the default subsample_freq: 1 gives way to data_sample_strategy: goss") == 1


def test_goss_does_not_depend_on_the_number_of_threads(backend: CpuBackend) -> None:
    rng = np.random.default_rng(2)
    X = np.asfortranarray(rng.normal(size=(4000, 3)), np.float32)
    y = (X[:, 0] + rng.normal(size=4000) > 0).astype(np.float64)
    context = FitContext(backend, "binary", 3, 2, {}, list("abc"))
    settings: Any = MODELS.get("lightgbm")(data_sample_strategy="goss", n_estimators=12, learning_rate=0.5)
    one, two = (fit(settings, X, y, context, n_threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.predict(X).output, two.predict(X).output)
    assert "trained on one thread" in " ".join(two.notes) and not one.notes

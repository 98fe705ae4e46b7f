"""Every value of every parameter with a fixed list of values is trained, next to the tuned defaults."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pytest

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.errors import ConfigError
from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.contradictions import ContradictionError

N = 160
# Few rounds and narrow networks; the parameters under test are stated in addition.
SMALL = {
    "n_estimators": 4, "iterations": 4, "max_iter": 4, "epochs": 1, "width": 8, "hidden": 8, "embedding_size": 8,
    "heads": 2,
}  # fmt: skip
# Values with a parameter that they need, which has no default that would do.
NEEDED: dict[tuple[str, str, Any], dict[str, Any]] = {
    ("hist_gradient_boosting", "loss", "quantile"): {"quantile": 0.7},
    ("ridge", "solver", "lbfgs"): {"positive": True},
}
UNTRAINED = {"best", "estimator"}  # trained by a run, and from a file
NETWORKS = {"mlp", "tabm", "ft_transformer"}
ALWAYS = ("binary", "regression", "clustering", "embedding")  # the other tasks at night


def is_always_run(name: str, task: str) -> bool:
    """Return whether a model is trained for a task by day: networks for one task only."""
    return task == "regression" and name == "mlp" if name in NETWORKS else task in ALWAYS


MODELS_AND_TASKS = [
    pytest.param(name, task, marks=() if is_always_run(name, task) else pytest.mark.nightly)
    for name, model in MODELS.items() if name not in UNTRAINED for task in sorted(model.tasks)
]  # fmt: skip


def listed_values(annotation: Any) -> Iterator[Any]:
    """Yield the values that a type lists: of Literal, bool and None, also inside unions and Annotated."""
    origin = get_origin(annotation)
    if annotation is bool:
        yield from (False, True)
    elif annotation is type(None):
        yield None
    elif origin is Literal:
        yield from get_args(annotation)
    elif origin in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from listed_values(each)
    elif hasattr(annotation, "__metadata__"):
        yield from listed_values(get_args(annotation)[0])


def values_of(name: str) -> list[tuple[str, Any]]:
    """Return each parameter of a model with each of its listed values."""
    fields = MODELS.get(name).model_fields.items()
    return [(field, value) for field, info in fields for value in listed_values(info.annotation)]


def table(task: str, view: str) -> tuple[Any, Any, FitContext]:
    """Return a small matrix in a view, with missing numbers and two columns of codes, its target, and the context."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 5))
    X[:, 3], X[:, 4] = rng.integers(3, 8, N), rng.integers(3, 5, N)
    score = X[:, 0] + 0.5 * X[:, 1] + 0.4 * rng.normal(size=N)
    if view == "codes":
        X[::11, :2] = np.nan
    y = {
        "binary": score > 0, "multiclass": np.digitize(score, [-0.5, 0.5]), "ranking": score > 0.3,
        "regression": np.exp(score), "quantile": np.exp(score),
    }.get(task)  # fmt: skip
    context = FitContext(
        CpuBackend(), task, 7, {"binary": 2, "multiclass": 3}.get(task, 0),  # type: ignore[arg-type]
        {} if view == "dense" else {3: 8, 4: 5}, list("abcde"), quantiles=(0.1, 0.5) if task == "quantile" else (),
        groups=np.arange(N) % 8 if task == "ranking" else None,
    )  # fmt: skip
    return np.asfortranarray(X, np.float32), None if y is None else y.astype(np.float64), context


def test_the_lists_are_read_from_the_schemas() -> None:
    assert set(values_of("lightgbm")) >= {("data_sample_strategy", "goss"), ("extra_trees", True)}
    assert set(values_of("catboost")) >= {("bootstrap_type", "No"), ("bootstrap_type", None), ("defaults", "library")}
    assert ("class_weight", "balanced_subsample") in values_of("random_forest")


@pytest.mark.parametrize(("name", "task"), MODELS_AND_TASKS)
def test_each_listed_value_is_trained_next_to_the_tuned_defaults(name: str, task: Any) -> None:
    model = MODELS.get(name)
    X, y, context = table(task, model.view)
    small = {field: value for field, value in SMALL.items() if field in model.model_fields}
    failed, n_trained = [], 0
    for field, value in values_of(name):
        if field == "compile" and value:
            continue  # needs a C++ compiler
        if field == "class_weight" and value is not None and context.n_classes == 0:
            continue
        given: Any = {**small, field: value, **(NEEDED.get((name, field, value), {}) if task != "quantile" else {})}
        settings = model(**given).for_task(task)
        try:
            settings.require_ready(task)
        except ConfigError as error:
            assert f"not available for the task {task}" in error.what
            continue
        try:
            predicted = fit(settings, X, y, context).predict(X).output
            n_trained += 1
        except Exception as error:
            failed.append(f"{field}: {value}: {error}")
        else:
            assert np.isfinite(predicted).all(), (field, value)
    assert not failed
    assert n_trained >= len([field for field, _ in values_of(name) if field != "defaults"]) // 4


@pytest.mark.parametrize(("name", "field", "value"), NEEDED)
def test_a_value_that_needs_another_parameter_names_it(name: str, field: str, value: Any) -> None:
    (needed,) = NEEDED[name, field, value]
    with pytest.raises((ConfigError, ContradictionError, ValueError), match=needed):
        MODELS.get(name)(**{field: value}).require_ready("regression")

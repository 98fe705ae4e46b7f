"""The ``models:`` section: names, parameters, labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from gpupipe.config import Config

Load = Callable[..., Config]
Problems = Callable[..., Sequence[str]]


@pytest.mark.parametrize(
    "text",
    [
        "models: [{xgboost: {max_depth: 8}}]",
        "models: [{name: xgboost, params: {max_depth: 8}}]",
        "models:\n  - xgboost:\n      max_depth: 8",
        "model: {xgboost: {max_depth: 8}}",
        "model: {name: xgboost, params: {max_depth: 8}}",
        "models: {xgboost: {max_depth: 8}}",
        "models: [{xgboost: {max_depth: 8}, as: xgboost}]",
    ],
)
def test_all_forms_are_equivalent(load: Load, text: str) -> None:
    (entry,) = load(text + "\n").models
    assert (entry.name, entry.label, entry.params.max_depth) == ("xgboost", "xgboost", 8)  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["models: [xgboost]", "models:\n  - xgboost:", "model: xgboost", "models: xgboost"])
def test_a_name_alone_has_the_default_parameters(load: Load, text: str) -> None:
    assert load(text + "\n").models == load("models: [{name: xgboost}]\n").models


def test_one_model_may_be_listed_twice_with_two_labels(load: Load) -> None:
    config = load("models: [xgboost, {name: xgboost, as: deep, params: {max_depth: 12}}]\n")
    assert [entry.label for entry in config.models] == ["xgboost", "deep"]


def test_two_models_with_one_label_are_refused(problems: Problems, load: Load) -> None:
    (problem,) = problems("models:\n  - xgboost\n  - random_forest\n  - xgboost: {max_depth: 3}\n")
    assert problem == (
        "c.yaml:5:5: models[2]: duplicate label 'xgboost', also used by models[0]; "
        "set another one: - {xgboost: {max_depth: 3}, as: xgboost_2}"
    )
    line = problem.partition("another one: ")[2]
    config = load(f"models:\n  - xgboost\n  - random_forest\n  {line}\n")
    assert [entry.label for entry in config.models] == ["xgboost", "random_forest", "xgboost_2"]


def test_model_and_models_together_are_refused(problems: Problems) -> None:
    assert problems("models: [xgboost]\nmodel: xgboost\n") == [
        "c.yaml:3:1: model: given together with models; keep one of them"
    ]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("xgbost", "models[0]: unknown model; did you mean 'xgboost'?"),
        ("name: xgbost", "models[0].name: unknown model; did you mean 'xgboost'?"),
        ("xgbost: {max_depth: 3}", "models[0].xgbost: unknown model; did you mean 'xgboost'?"),
        ("xgboost: {max_dept: 3}", "models[0].xgboost.max_dept: unknown key; did you mean 'max_depth'?"),
        ("{name: xgboost, params: {max_dept: 3}}", "models[0].params.max_dept: unknown key; did you mean 'max_depth'?"),
        ("{name: xgboost, parms: {}}", "models[0].parms: unknown key; did you mean 'params'?"),
        ("xgboost: {max_depth: deep}", "models[0].xgboost.max_depth: expected a whole number"),
        ("5", "models[0]: expected a mapping (key: value), got 5"),
    ],
)
def test_a_wrong_model_is_located_and_explained(problems: Problems, item: str, message: str) -> None:
    (problem,) = problems(f"models:\n  - {item}\n")
    assert problem.partition(": ")[2].startswith(message)
    assert problem.startswith("c.yaml:3:")

"""Tuned defaults: the values that a run uses for parameters that were not stated."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.config import Config, json_schema, load_config, parse_config, resolved_yaml
from gpupipe.errors import ConfigError
from gpupipe.model_parts.goal import Goal
from gpupipe.models import MODELS
from gpupipe.models.scikit_learn.settings.hist_boosting import HistGradientBoosting
from gpupipe.tasks import Task
from gpupipe.training.preparation.preparation import choose_entries

TUNED = [(name, task) for name, model in MODELS.items() for task in sorted(model.tuned)]
BINARY = Goal("binary", "y", ("no", "yes"), "the target has two values")


def chosen(models: Any) -> list[Any]:
    """Return the parameters of the candidates of a configuration."""
    config = parse_config({"source": {"path": "t.csv", "target": "y"}, "models": models})
    return [entry.params for entry in choose_entries(config, BINARY, CpuBackend())]


@pytest.mark.parametrize(("name", "task"), TUNED)
def test_tuned_values_are_valid_values_of_fields(name: str, task: Task) -> None:
    model = MODELS.get(name)
    assert task in model.tasks
    assert model(**model.tuned[task]).model_dump() == model().for_task(task).model_dump()


@pytest.mark.parametrize(("name", "task"), TUNED)
def test_stated_values_win_even_if_they_are_the_defaults_of_the_library(name: str, task: Task) -> None:
    model = MODELS.get(name)
    for field in model.tuned[task]:
        stated = model.model_fields[field].default
        if model(**{field: stated}).default_notes(task):
            continue  # null leaves the choice to the library, which cannot choose next to other tuned values
        filled = model(**{field: stated}).for_task(task)
        others = {key: value for key, value in model.tuned[task].items() if key != field}
        assert getattr(filled, field) == stated
        assert {key: getattr(filled, key) for key in others} == others


@pytest.mark.parametrize(("name", "task"), TUNED)
def test_with_library_or_once_filled_nothing_is_filled(name: str, task: Task) -> None:
    plain = MODELS.get(name)(defaults="library")
    assert plain.for_task(task) is plain
    filled = MODELS.get(name)().for_task(task)
    assert filled.for_task(task) == filled


def test_every_task_of_a_tuned_model_is_tuned() -> None:
    for name, model in MODELS.items():
        assert not model.tuned or set(model.tuned) == set(model.tasks), name


def test_the_short_form_asks_for_the_defaults_of_the_library() -> None:
    forms: list[Any] = [
        "xgboost", {"xgboost": {"max_depth": 4}, "as": "a"}, {"xgboost": "library", "as": "b"},
        {"name": "xgboost", "params": "library", "as": "c"},
        {"xgboost": {"defaults": "library", "max_depth": 4}, "as": "d"}, {"xgboost": None, "as": "e"},
    ]  # fmt: skip
    found = [(params.max_depth, params.n_estimators, params.learning_rate) for params in chosen(forms)]
    tuned, library = (6, 1000, 0.08), (6, 100, 0.3)
    assert found == [tuned, (4, *tuned[1:]), library, library, (4, *library[1:]), tuned]


def test_another_word_is_an_error_that_lists_the_words() -> None:
    with pytest.raises(ConfigError, match="'tuned' or 'library'"):
        chosen([{"xgboost": "fast"}])


def test_the_schema_has_the_short_form() -> None:
    forms = json_schema()["$defs"]["ModelEntry"]["anyOf"]
    short = [form["properties"]["xgboost"]["anyOf"] for form in forms if "xgboost" in form.get("properties", {})]
    assert {"enum": ["tuned", "library"]} in short[0]


def test_the_configuration_of_a_run_is_read_back_as_the_same_candidates(tmp_path: Any) -> None:
    config = parse_config({"source": {"path": "t.csv", "target": "y"}, "models": ["xgboost", {"ridge": "library"}]})
    goal = Goal("regression", "y", (), "a number")
    used: Config = config.model_copy(update={"models": choose_entries(config, goal, CpuBackend())})
    path = tmp_path / "config.yaml"
    path.write_text(resolved_yaml(used))
    again = load_config(path)
    assert "learning_rate: 0.05" in path.read_text()
    assert choose_entries(again, goal, CpuBackend()) == used.models


def test_the_default_models_are_tuned() -> None:
    for task in ("binary", "multiclass", "regression"):
        assert task in get_args(Task)
        config = parse_config({"source": {"path": "t.csv", "target": "y"}})
        entries = choose_entries(config, Goal(task, "y", ("a", "b"), ""), CpuBackend())
        boosting = next(entry for entry in entries if entry.name == "hist_gradient_boosting")
        assert isinstance(boosting.params, HistGradientBoosting)
        assert boosting.params.max_iter == 1000 and boosting.params.early_stopping is True

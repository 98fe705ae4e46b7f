"""The setting ``tune:`` of a model entry: a search for the parameters of that model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from gpupipe.config.registered_parts import located_error
from gpupipe.errors import did_you_mean
from gpupipe.models import ModelSettings
from gpupipe.models.published_spaces import SPACES
from gpupipe.models.scikit_learn.settings.estimator import Estimator
from gpupipe.models.search_space import (
    SearchDimension,
    SearchRange,
    excludes,
    searched_values,
    with_values,
)
from gpupipe.settings import Seconds, Settings
from gpupipe.tasks import SUPERVISED


class Tune(Settings):
    """Search for the parameters of a model on held-out training rows, by Optuna (``pip install 'gpupipe[tune]'``).

    The first trial has the parameters of the entry without a search. Parameters that the entry states keep their value,
    unless `space` lists them.
    """

    trials: Annotated[int, Field(gt=0)] = Field(50, description="Maximum number of trials, with the first.")
    time_limit: Seconds | None = Field(
        None,
        description="Wall time of the search, such as 30min, without the training of the best model; the first trial "
        "is always finished. A resumed run counts the time of the interrupted one. null: no limit.",
    )
    folds: Annotated[int, Field(ge=2)] = Field(
        5,
        description="Folds of the training rows, by the rules of split: stratified, by group, or forward in time. Each "
        "trial trains a model for each fold, unless it is pruned.",
    )
    space: dict[str, SearchDimension] | None = Field(
        None,
        description="Searched parameters, each as [low, high], {low:, high:, log: true} or {choices: [...]}. null: the "
        "published space of the model, without the parameters that the entry states.",
    )


def read_tune(value: Any) -> Any:
    """Return the short forms of ``tune:`` as its fields: a number of trials, true or false."""
    if isinstance(value, bool):
        return {} if value else None
    if isinstance(value, str | float | list):
        message = "expected a number of trials, true, or the settings of a search, such as {time_limit: 30min}"
        raise PydanticCustomError("tune", "{message}", {"message": message})
    return {"trials": value} if isinstance(value, int) else value


def with_space(name: str, params: ModelSettings, tune: Tune) -> Tune:
    """Return `tune` with its search space: by default the published parameters that the entry does not state.

    Without those that a stated parameter excludes, such as ``subsample`` next to ``bootstrap_type: Bayesian``.
    """
    if tune.space is not None:
        return tune
    space = {
        key: value
        for key, value in SPACES.get(name, {}).items()
        if key not in params.model_fields_set and not excludes(params, key)
    }
    return tune.model_copy(update={"space": space})


def tune_errors(name: str, params: ModelSettings, tune: Tune) -> Iterator[InitErrorDetails]:
    """Yield the errors of ``tune:`` for the model `name` with its parameters."""
    if not params.tasks & SUPERVISED or params.view == "combined":
        able = ", ".join(SPACES)
        yield _error(("tune",), "tune", f"{name} cannot be tuned; the models with a search space are {able}")
    elif tune.space is not None:
        for key in tune.space:
            yield from _dimension_errors(params, key, tune.space[key])
        if not tune.space:
            yield _error(("tune", "space"), "space", "expected at least one parameter to search")
    elif name not in SPACES:
        where = "{depth: [2, 8]}, of its params" if isinstance(params, Estimator) else "{parameter: [low, high]}"
        yield _error(("tune",), "tune", f"{name} has no published search space; add tune.space, such as {where}")
    elif not with_space(name, params, tune).space:
        yield _error(
            ("tune",), "tune", f"the entry states all parameters of the search space: {', '.join(SPACES[name])}"
        )


def _dimension_errors(params: ModelSettings, key: str, searched: Any) -> Iterator[InitErrorDetails]:
    at, known = ("tune", "space", key), searched_values(params)
    if key not in known and not isinstance(params, Estimator):
        hint = did_you_mean(key, known) or f"its parameters are {', '.join(known)}"
        yield _error(at, key, f"unknown parameter; {hint}")
        return
    if stated := excludes(params, key):
        yield _error(at, key, f"{stated} excludes other values of {key}; remove one of them")
        return
    is_range = isinstance(searched, SearchRange)
    if is_range and searched.relative_to is not None:
        return
    values = {"low": searched.low, "high": searched.high} if is_range else dict(enumerate(searched.choices))
    for step, value in values.items():
        try:
            with_values(params, {key: value})
        except ValidationError as error:
            below = (step,) if is_range else ("choices", step)
            yield located_error(type(params), {**error.errors()[0], "loc": (), "input": value}, (*at, *below))


def _error(loc: tuple[int | str, ...], value: Any, message: str) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError("tune", "{message}", {"message": message}), loc=loc, input=value)

"""Errors of sections that contradict ``source.task``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic_core import InitErrorDetails, PydanticCustomError

from gpupipe.errors import ConfigError
from gpupipe.metrics.conformal import interval_ends
from gpupipe.metrics.evaluation import metric_names
from gpupipe.models import MODELS

if TYPE_CHECKING:
    from gpupipe.config.sections import Config
    from gpupipe.tasks import Task


def task_errors(config: Config) -> list[InitErrorDetails]:
    """Return an error for each model, metric or interval that the task of the source does not have."""
    task = config.source.task
    return [] if task is None else [*_models(config, task), *_metrics(config, task), *_intervals(config)]


def _models(config: Config, task: Task) -> Iterator[InitErrorDetails]:
    able = ", ".join(name for name, model in MODELS.items() if task in model.tasks)
    for i, entry in enumerate(config.models):
        if task not in entry.params.tasks:
            yield _error(f"{entry.name} cannot learn the task {task}; choose from {able}", "models", i)


def _metrics(config: Config, task: Task) -> Iterator[InitErrorDetails]:
    try:
        metric_names(task, config.evaluate)
    except ConfigError as error:
        yield _error(f"{error.what}; {error.fix}", *str(error.where).split("."))


def _intervals(config: Config) -> Iterator[InitErrorDetails]:
    level, quantiles = config.evaluate.intervals, config.source.quantile_levels
    if level is not None and interval_ends(level, quantiles) is None:
        ends = f"{0.5 - level / 2:g} and {0.5 + level / 2:g}"
        what = f"{level:g} needs the quantiles {ends}; add them to source.quantiles"
        yield _error(what, "evaluate", "intervals", given=level)


def _error(message: str, *path: str | int, given: Any = None) -> InitErrorDetails:
    error = PydanticCustomError("task", "{message}", {"message": message})
    return InitErrorDetails(type=error, loc=path, input=given)

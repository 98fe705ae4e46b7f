"""Errors of sections that contradict ``source.task``, or models that contradict ``split``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic_core import InitErrorDetails, PydanticCustomError

from gpupipe.errors import ConfigError
from gpupipe.metrics.conformal import interval_ends
from gpupipe.metrics.evaluation import metric_names
from gpupipe.models import MODELS
from gpupipe.models.best import Best
from gpupipe.models.xgboost.settings import XGBoost

if TYPE_CHECKING:
    from gpupipe.config.sections import Config
    from gpupipe.tasks import Task


def task_errors(config: Config) -> list[InitErrorDetails]:
    """Return an error for each model, metric or interval that the task of the source does not have.

    With several targets, also for settings that are for a single one; and for an ensemble without the folds it needs.
    """
    task = config.source.task
    found = [] if task is None else [*_models(config, task), *_metrics(config, task), *_intervals(config, task)]
    found += _ranking(config) if task == "ranking" else []
    found += _out_of_fold(config)
    return [*found, *(_several(config) if len(config.source.targets) > 1 else _single(config))]


def _out_of_fold(config: Config) -> Iterator[InitErrorDetails]:
    """Yield the first reason why the folds of an ensemble cannot be those of ``split.cv``."""
    split = config.split
    for i, entry in enumerate(config.models):
        if not isinstance(entry.params, Best) or not entry.params.out_of_fold:
            continue
        problems = {
            "needs split.cv: set it to the number of folds, such as 8": split.cv is None,
            "needs folds of all rows: remove split.time": split.time is not None,
            "needs one set of folds: remove split.repeats": split.repeats > 1,
            "has the folds of split.cv: remove folds": entry.params.folds is not None,
            "evaluates one candidate: remove the others": len(config.models) > 1,
        }
        yield from [_error(f"out_of_fold {what}", "models", i) for what, is_wrong in problems.items() if is_wrong][:1]


def _several(config: Config) -> Iterator[InitErrorDetails]:
    n_targets = len(config.source.targets)
    for i, entry in enumerate(config.models):
        if entry.params.view == "combined":
            yield _error(
                f"{entry.name} learns one target; there are {n_targets}: list the models to compare", "models", i
            )
        elif not entry.params.learns_jointly:
            continue
        elif getattr(entry.params, "class_weight", None) is not None:
            what = f"class_weight is for one target; {entry.name} learns {n_targets} together: remove it"
            yield _error(what, "models", i)
        elif isinstance(entry.params, XGBoost) and config.cluster.scheduler is not None:
            yield _error(f"{_JOINT} trains in one process: use one_output_per_tree on a cluster", "models", i)
    for i, op in enumerate(config.features):
        if op.title() == "generate":
            what = f"it chooses features for one target; there are {n_targets}: remove it"
            yield _error(what, "features", i, op.title())


def _single(config: Config) -> Iterator[InitErrorDetails]:
    for i, entry in enumerate(config.models):
        is_tried = entry.tune is not None and "multi_strategy" in (entry.tune.space or {})
        if isinstance(entry.params, XGBoost) and (entry.params.learns_jointly or is_tried):
            yield _error(f"{_JOINT} is for several targets: list them in source.target, or remove it", "models", i)


_JOINT = "multi_strategy: multi_output_tree"


def _models(config: Config, task: Task) -> Iterator[InitErrorDetails]:
    able = ", ".join(name for name, model in MODELS.items() if task in model.tasks)
    for i, entry in enumerate(config.models):
        if task not in entry.params.tasks:
            yield _error(f"{entry.name} cannot learn the task {task}; choose from {able}", "models", i)


def _metrics(config: Config, task: Task) -> Iterator[InitErrorDetails]:
    try:
        metric_names({task}, config.evaluate)
    except ConfigError as error:
        yield _error(f"{error.what}; {error.fix}", *str(error.where).split("."))


def _ranking(config: Config) -> Iterator[InitErrorDetails]:
    if config.split.group is None:
        also = "; it has no predefined split" if config.split.column is not None else ""
        what = f"a ranking needs the column whose equal values are ranked together{also}"
        yield _error(what, "split", "group")
    if config.source.weight is not None:
        yield _error("a ranking takes no row weights: remove it", "source", "weight", given=config.source.weight)


def _intervals(config: Config, task: Task) -> Iterator[InitErrorDetails]:
    level, quantiles = config.evaluate.intervals, config.source.quantile_levels
    if level is not None and task == "ranking":
        yield _error("the scores of a ranking have no intervals: remove it", "evaluate", "intervals", given=level)
    elif level is not None and interval_ends(level, quantiles) is None:
        ends = f"{0.5 - level / 2:g} and {0.5 + level / 2:g}"
        what = f"{level:g} needs the quantiles {ends}; add them to source.quantiles"
        yield _error(what, "evaluate", "intervals", given=level)


def _error(message: str, *path: str | int, given: Any = None) -> InitErrorDetails:
    error = PydanticCustomError("task", "{message}", {"message": message})
    return InitErrorDetails(type=error, loc=path, input=given)

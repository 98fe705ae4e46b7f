"""Training for several targets or quantiles: one model for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError, DataError
from gpupipe.models.composites.parts import FittedQuantiles, FittedTargets
from gpupipe.models.context import FitContext, ignore_rounds
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.weights import require_labels

if TYPE_CHECKING:
    from gpupipe.models.base import ModelSettings
    from gpupipe.typing import Array


@contextmanager
def naming_target(name: str | None) -> Iterator[None]:
    """Name one of several targets in the errors of its part of the work."""
    try:
        yield
    except (ConfigError, DataError) as error:
        error.what = f"target {name!r}: {error.what}"
        raise


def fit_targets(
    model: ModelSettings,
    y: Array,
    context: FitContext,
    fit_one: Callable[[ModelSettings, Array, FitContext], FittedModel],
) -> FittedTargets:
    """Return a model of several targets that has one for each, with its own number of rounds.

    Raise DataError if the rows have fewer than two classes of a target; the message names it; ConfigError if the model
    cannot learn a target, or class weights name a class that no target has.

    `y` has class codes or numbers of each target, shape (n, n_targets). `fit_one` trains a model of one target, a
    column of `y`, in its context, with its settings.
    """
    labels = list(dict.fromkeys(chain.from_iterable(target.labels for target in context.targets)))
    require_labels(getattr(model, "class_weight", None), labels)
    models = []
    for i, target in enumerate(context.targets):
        with naming_target(target.name):
            models.append(fit_one(model.for_target(target), y[:, i], context_of_target(context, i)))
    return FittedTargets(
        tuple(models),
        context.task,
        tuple(context.feature_names),
        notes=_notes([target.name for target in context.targets], models),
        backend=context.device_backend,
        targets=tuple(context.targets),
    )


def context_of_target(context: FitContext, position: int) -> FitContext:
    """Return the context of one of several targets."""
    target, held = context.targets[position], context.validation
    return replace(
        context,
        task=target.task,
        n_classes=target.n_classes,
        class_labels=target.labels,
        targets=(),
        validation=None if held is None else replace(held, y=held.y[:, position]),
        report_rounds=ignore_rounds,
    )


def learns_one_quantile(model: ModelSettings, context: FitContext) -> bool:
    """Return whether the task is quantile regression, and the model learns each quantile by itself.

    Networks learn all quantiles together, as outputs of one network.
    """
    return context.task == "quantile" and not isinstance(model, NeuralSettings)


def fit_quantiles(
    model: ModelSettings, context: FitContext, fit_one: Callable[[ModelSettings, FitContext], FittedModel]
) -> FittedQuantiles:
    """Return the model of all quantiles of the context.

    Each has its own number of rounds: the tails need others than the median. `fit_one` trains the settings of one
    quantile, a regression, in its context. Raise ConfigError if the model cannot learn quantiles.
    """
    model.require_task(context.task)
    own = replace(context, task="regression", quantiles=(), report_rounds=ignore_rounds)
    models = tuple(fit_one(model.for_quantile(level), own) for level in context.quantiles)
    return FittedQuantiles(
        models,
        context.task,
        tuple(context.feature_names),
        notes=_notes([f"quantile {level:g}" for level in context.quantiles], models),
        backend=context.device_backend,
    )


def _notes(names: Sequence[str], models: Sequence[FittedModel]) -> tuple[str, ...]:
    """Return the notes of models, each after the name of its model."""
    notes: dict[str, None] = {}
    for name, fitted in zip(names, models, strict=True):
        notes |= dict.fromkeys(f"{name}: {note}" for note in fitted.notes)
    return tuple(notes)

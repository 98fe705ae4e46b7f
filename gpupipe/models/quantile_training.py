"""Quantile regression by models that learn one quantile at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpupipe.models.base import ModelSettings
from gpupipe.models.composites.quantiles import FittedQuantiles
from gpupipe.models.context import FitContext, ignore_rounds
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.neural.settings import NeuralSettings


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
    notes = dict.fromkeys(
        note for level, fitted in zip(context.quantiles, models, strict=True) for note in _named(level, fitted)
    )
    is_on_device = context.backend.name != "cpu"
    return FittedQuantiles(
        models, context.task, tuple(context.feature_names), notes=tuple(notes),
        backend=context.backend if is_on_device else None,
    )  # fmt: skip


def _named(level: float, fitted: FittedModel) -> list[str]:
    return [f"quantile {level:g}: {note}" for note in fitted.notes]

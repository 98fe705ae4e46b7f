"""Registry of metrics. Metric functions import their libraries when called, so listing metrics is cheap."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpupipe.entry_points import METRICS as PLUGINS
from gpupipe.registry import Registry
from gpupipe.tasks import Task


@dataclass(frozen=True)
class Metric:
    """A metric."""

    # ``(rows) -> float``, with rows as in `gpupipe.metrics.predictions`; NaN if undefined.
    function: Callable[..., float]
    greater_is_better: bool
    tasks: frozenset[Task]
    default: bool = True  # whether it is computed if the configuration names no metrics

    @property
    def definition(self) -> str:
        """One-line definition: the docstring of the function."""
        return inspect.getdoc(self.function) or ""


METRICS: Registry[Metric] = Registry("metric", group=PLUGINS, adapt="gpupipe.metrics.plugin:adapt_metric")


def metric(
    name: str, tasks: Iterable[Task], greater_is_better: bool = True, default: bool = True
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Return a decorator that registers a function in `METRICS` and returns it unchanged."""

    def decorate(function: Callable[..., float]) -> Callable[..., float]:
        METRICS.register(name)(Metric(function, greater_is_better, frozenset(tasks), default))
        return function

    return decorate

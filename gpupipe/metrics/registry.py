"""The table of metrics. Functions import what they compute with when called, so listing names costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpupipe.registry import Registry
from gpupipe.tasks import Task


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes
    ----------
    function : callable
        Of rows as `gpupipe.metrics.predictions` has them, those of the tasks: ``(rows) -> float``, NaN where it is not
        defined.
    greater_is_better : bool
    tasks : frozenset of Task
    default : bool
        Whether it is measured when the configuration names no metrics.
    """

    function: Callable[..., float]
    greater_is_better: bool
    tasks: frozenset[Task]
    default: bool = True


METRICS: Registry[Metric] = Registry("metric")


def metric(
    name: str, tasks: Iterable[Task], greater_is_better: bool = True, default: bool = True
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Return a decorator that files a function in `METRICS` and gives it back."""

    def decorate(function: Callable[..., float]) -> Callable[..., float]:
        METRICS.register(name)(Metric(function, greater_is_better, frozenset(tasks), default))
        return function

    return decorate

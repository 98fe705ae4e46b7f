"""The table of metrics. Functions import what they compute with when called, so listing names costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from gpupipe.registry import Registry

Array = Any
Needs = Literal["probability", "label", "value", "cluster", "embedding"]

CLASSIFICATION = ("binary", "multiclass")


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes
    ----------
    function : callable
        ``(y_true, predicted, n_classes) -> float``, NaN where it is not defined; for clusters and embeddings
        ``(X, predicted) -> float``.
    greater_is_better : bool
    tasks : tuple of str
    needs : str
        What `predicted` is: probability, shape (n, k); label, class codes; value; cluster, labels; embedding.
    default : bool
        Whether it is measured when the configuration names no metrics.
    """

    function: Callable[..., float]
    greater_is_better: bool
    tasks: tuple[str, ...]
    needs: Needs
    default: bool = True


METRICS: Registry[Metric] = Registry("metric")


def metric(
    name: str, needs: Needs, tasks: tuple[str, ...], greater_is_better: bool = True, default: bool = True
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Return a decorator that files a function in `METRICS` and gives it back."""

    def decorate(function: Callable[..., float]) -> Callable[..., float]:
        METRICS.register(name)(Metric(function, greater_is_better, tasks, needs, default))
        return function

    return decorate

"""Permutation importance: the loss of quality when one input column is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.metrics.evaluation import evaluate
from gpupipe.metrics.predictions import Threshold
from gpupipe.metrics.registry import METRICS
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.metrics.settings import Costs


@dataclass(frozen=True)
class ColumnImportance:
    """Mean and standard deviation of the loss of the metric over the repeats; negative values are gains by chance."""

    name: str
    mean: float
    std: float


def permutation_importance(
    predict: Callable[[Array], Array],
    X: Array,
    y: Array,
    groups: Mapping[str, Sequence[int]],
    *,
    task: str,
    metric: str,
    threshold: Threshold = 0.5,
    n_classes: int = 2,
    repeats: int = 3,
    rows: int = 5_000,
    seed: int = 0,
    sample_weight: Array | None = None,
    costs: Costs | None = None,
    quantiles: Sequence[float] = (),
    backend: Backend,
) -> list[ColumnImportance]:
    """Return the importance of each group of columns, most important first.

    Parameters
    ----------
    predict : callable
        Function from a matrix to the array that the metric measures.
    X : array, shape (n, d)
        Rows that the model was not trained on, on the host; not modified.
    y : array, shape (n,)
    groups : mapping of str to sequence of int
        Input column to the matrix columns computed from it, which are shuffled together.
    task, metric, threshold, n_classes, costs, quantiles
        As for `evaluate`.
    repeats : int
        Number of shuffles of each group.
    rows : int
        Maximum number of rows, drawn with the seed.
    seed : int
    sample_weight : array of float, shape (n,), optional
        Weight of each row in the metric; rows are drawn without regard to it.
    backend : Backend
        Backend that computes predictions and metrics.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    chosen = np.arange(len(X)) if len(X) <= rows else np.sort(generator.choice(len(X), rows, replace=False))
    sample = np.array(X[chosen], order="F")  # always a copy: it is shuffled in place
    truth = backend.to_device(np.asarray(y)[chosen])
    weight = None if sample_weight is None else backend.to_device(np.asarray(sample_weight)[chosen])
    sign = 1.0 if METRICS.get(metric).greater_is_better else -1.0

    def score() -> float:
        found = evaluate(
            task, truth, predict(sample), [metric], threshold, n_classes, sample_weight=weight, costs=costs,
            quantiles=quantiles, backend=backend,
        )  # fmt: skip
        return sign * found[metric]

    before = score()
    found = []
    for name, columns in groups.items():
        kept = sample[:, columns].copy()
        drops = []
        for _ in range(repeats):
            sample[:, columns] = kept[generator.permutation(len(sample))]
            drops.append(before - score())
        sample[:, columns] = kept
        found.append(ColumnImportance(name, float(np.mean(drops)), float(np.std(drops))))
    return sorted(found, key=lambda importance: -importance.mean)

"""Permutation importance: how much worse a model gets when one input column is shuffled."""

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
    """Mean and standard deviation, over the repeats, of how much worse the metric gets; negative: better by chance."""

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
    costs: Costs | None = None,
    backend: Backend,
) -> list[ColumnImportance]:
    """Return the importance of each group of columns, most important first.

    Parameters
    ----------
    predict : callable
        Matrix to the array that the metric is of.
    X : array, shape (n, d)
        Rows that the model has not seen, on the host; left as it is.
    y : array, shape (n,)
    groups : mapping of str to sequence of int
        Input column to the columns of the matrix that come from it; they are shuffled together.
    task, metric, threshold, n_classes, costs
        As `evaluate` takes them.
    repeats : int
        Shuffles of each group.
    rows : int
        At most so many rows are used, drawn with the seed.
    seed : int
    backend : Backend
        Where predictions are, and are measured.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    chosen = np.arange(len(X)) if len(X) <= rows else np.sort(generator.choice(len(X), rows, replace=False))
    sample = np.array(X[chosen], order="F")  # a copy, also where all rows are used: it is shuffled in place
    truth = backend.to_device(np.asarray(y)[chosen])
    sign = 1.0 if METRICS.get(metric).greater_is_better else -1.0

    def score() -> float:
        found = evaluate(task, truth, predict(sample), [metric], threshold, n_classes, costs=costs, backend=backend)
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

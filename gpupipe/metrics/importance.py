"""Permutation importance: the loss of quality when one input column is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TypeVar

from gpupipe.random_streams import make_generator
from gpupipe.typing import Array
from gpupipe.units import MIB

BATCH_BYTES = 16 * MIB  # of shuffled copies that are predicted at once

Predicted = TypeVar("Predicted")


@dataclass(frozen=True)
class ColumnImportance:
    """Mean and standard deviation of the loss of the metric over the repeats; negative values are gains by chance."""

    name: str
    mean: float
    std: float

    @property
    def is_measurable(self) -> bool:
        """True if the mean is positive and exceeds its spread over the repeats; otherwise it is noise."""
        return self.mean > self.std


def permutation_importance(
    predict: Callable[[Array], Predicted],
    score: Callable[[Predicted, slice], float],
    X: Array,
    groups: Mapping[str, Sequence[int]],
    *,
    repeats: int = 3,
    seed: int = 0,
    batch_bytes: int = BATCH_BYTES,
    n_threads: int = 1,
) -> list[ColumnImportance]:
    """Return the importance of each group of columns, most important first.

    After Breiman, "Random forests", Machine Learning 45 (2001) 5, on rows that the model was not trained on.

    The matrix is predicted ``1 + repeats * len(groups)`` times, each time with other values shuffled. Copies are
    predicted together, as many as fit into `batch_bytes`: a call of a model has a fixed cost, and an ensemble has one
    for each of its models.

    - `predict`: returns the predictions of stacked copies of the matrix, shape (k * n, d), column-major
    - `score`: returns the score of a copy, greater is better, from these predictions and the slice of its rows
    - `X` (array, shape (n, d)): on the host, not modified
    - `groups`: matrix columns that are computed from each input column; they are shuffled together
    - `n_threads`: number of batches to predict at the same time; both functions must then be thread-safe
    """
    import numpy as np

    generator, n = make_generator(seed, "permutation importance"), len(X)
    repeated = chain.from_iterable(repeat(list(columns), repeats) for columns in groups.values())
    shuffled = [[], *repeated]
    step = max(1, min(batch_bytes // max(1, X.nbytes), -(-len(shuffled) // n_threads)))
    orders = [generator.permutation(n) if columns else None for columns in shuffled]

    def scores_of(start: int) -> list[float]:
        batch = list(zip(shuffled, orders, strict=True))[start : start + step]
        stacked = np.empty((n * len(batch), X.shape[1]), X.dtype, order="F")
        parts = [slice(i * n, (i + 1) * n) for i in range(len(batch))]
        for part, (columns, order) in zip(parts, batch, strict=True):
            stacked[part] = X
            if columns:
                stacked[part, columns] = X[:, columns][order]
        predicted = predict(stacked)
        return [score(predicted, part) for part in parts]

    starts = range(0, len(shuffled), step)
    if n_threads == 1:
        scores = list(chain.from_iterable(map(scores_of, starts)))
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            scores = list(chain.from_iterable(pool.map(scores_of, starts)))
    drops = (scores[0] - np.array(scores[1:])).reshape(len(groups), repeats)
    found = [
        ColumnImportance(name, float(own.mean()), float(own.std())) for name, own in zip(groups, drops, strict=True)
    ]
    return sorted(found, key=lambda importance: -importance.mean)

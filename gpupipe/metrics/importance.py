"""Permutation importance: the loss of quality when one input column is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gpupipe.random_streams import make_generator
from gpupipe.typing import Array


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
    score: Callable[[Array, Array], float],
    X: Array,
    groups: Mapping[str, Sequence[int]],
    *,
    repeats: int = 3,
    rows: int = 5_000,
    seed: int = 0,
) -> list[ColumnImportance]:
    """Return the importance of each group of columns, most important first.

    After Breiman, "Random forests", Machine Learning 45 (2001) 5, on rows that the model was not trained on.

    `score` returns the score of the model, greater is better, from rows of the matrix, shape (m, d), and their numbers
    in `X`, int64. `X` is on the host and not modified; of more than `rows` rows, some are drawn with the seed. `groups`
    maps an input column to the matrix columns computed from it, which are shuffled together.
    """
    import numpy as np

    generator = make_generator(seed, "permutation importance")
    chosen = np.arange(len(X)) if len(X) <= rows else np.sort(generator.choice(len(X), rows, replace=False))
    sample = np.array(X[chosen], order="F")  # always a copy: it is shuffled in place
    before = score(sample, chosen)
    found = []
    for name, columns in groups.items():
        kept = sample[:, columns].copy()
        drops = []
        for _ in range(repeats):
            sample[:, columns] = kept[generator.permutation(len(sample))]
            drops.append(before - score(sample, chosen))
        sample[:, columns] = kept
        found.append(ColumnImportance(name, float(np.mean(drops)), float(np.std(drops))))
    return sorted(found, key=lambda importance: -importance.mean)

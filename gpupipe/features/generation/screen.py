"""Screening of candidates: the share of the residual that each explains out of fold, against permuted residuals.

A candidate cuts the rows into cells: intervals of a number, or combinations of levels. The mean residual of each cell
over the other folds predicts the rows of a fold. The share of the squared residual that this explains can be negative,
and is for most noise. Because every candidate is scored on the same permuted residuals, the highest permuted scores are
the distribution of the best of all candidates under chance (Westfall and Young, "Resampling-Based Multiple Testing",
1993).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.typing import Array

N_PERMUTATIONS = 20  # the best of all under chance exceeds the highest of these with probability 1 / 21
N_INTERVALS = 20
ROWS_OF_EDGES = 8_192
PRIOR_ROWS = 20.0  # as `target_encode` smooths


@dataclass(frozen=True)
class Screen:
    """Residuals of the rows, and their permutations.

    `residuals`: float64 of mean 0, shape (1 + n_permutations, n_outputs, n_rows), first those of the rows. `folds`:
    int64, shape (n_rows,), from 0.
    """

    residuals: Array
    folds: Array
    n_folds: int
    backend: Backend

    @classmethod
    def permuted(
        cls,
        residuals: Array,
        folds: Array,
        n_folds: int,
        backend: Backend,
        rng: np.random.Generator,
        n_permutations: int,
    ) -> Screen:
        """Return the screen of residuals of shape (n_rows, n_outputs); `folds` as in the class."""
        centred = (residuals - residuals.mean(axis=0)).T
        n_rows = centred.shape[1]
        stacked = np.stack([centred, *(centred[:, rng.permutation(n_rows)] for _ in range(n_permutations))])
        return cls(backend.to_device(stacked), backend.to_device(folds.astype(np.int64)), n_folds, backend)

    @property
    def n_permutations(self) -> int:
        """Number of permutations of the residuals."""
        return len(self.residuals) - 1

    def score_numbers(self, columns: Iterable[Array]) -> Array:
        """Return the scores of numeric columns, shape (n_columns, 1 + n_permutations); NaN is a separate cell.

        Without permutations, the scores are net of the expected score of noise, which is negative.
        """
        # One after the other: `bincount` holds the interpreter lock, and threads that wait for it take longer.
        return np.array([self._score_number(x) for x in columns]).reshape(-1, len(self.residuals))

    def score_cells(self, columns: Iterable[tuple[Array, int]]) -> Array:
        """Return the scores of columns given as cell of each row, int64, and number of cells; shape as above."""
        return np.array([self._score_cells(column) for column in columns]).reshape(-1, len(self.residuals))

    def _score_number(self, x: Array) -> Array:
        xp = self.backend.xp
        sample = x[:: max(1, len(x) // ROWS_OF_EDGES)]
        known = xp.sort(sample[~xp.isnan(sample)])
        if not len(known):
            return np.zeros(len(self.residuals))
        places = (np.arange(1, N_INTERVALS) * len(known)) // N_INTERVALS
        edges = xp.unique(known[self.backend.to_device(places)])
        # Comparisons with all 19 edges take a fifth of the time of searchsorted, whose branches cannot be predicted.
        cells = xp.zeros(len(x), np.int8)
        for edge in edges:
            cells += x >= edge
        cells = xp.where(xp.isnan(x), np.int8(N_INTERVALS), cells)
        return self._score_cells((cells, N_INTERVALS + 1))

    def _score_cells(self, column: tuple[Array, int]) -> Array:
        cells, n_cells = column
        xp = self.backend.xp
        if self.n_folds * n_cells > 4 * len(cells):  # most combinations do not occur
            found, cells = xp.unique(cells, return_inverse=True)
            cells, n_cells = cells.reshape(-1), len(found)
        place, size = self.folds * n_cells + cells, self.n_folds * n_cells
        counts = xp.bincount(place, minlength=size).reshape(self.n_folds, n_cells).astype(np.float64)
        other = counts.sum(axis=0) - counts + PRIOR_ROWS
        scores = []
        for residuals in self.residuals:
            gain: Any = 0.0
            for r in residuals:
                own = xp.bincount(place, weights=r, minlength=size).reshape(self.n_folds, n_cells)
                mean = (own.sum(axis=0) - own) / other
                gain = gain + (mean * (2.0 * own - counts * mean)).sum()
            scores.append(gain / self._total)
        if not self.n_permutations:
            # What noise loses, by the variance of the means: without permutations, nothing else makes the scores of
            # many cells comparable with those of few.
            scores[0] = scores[0] + (counts * (other - PRIOR_ROWS) / other**2).sum() / len(cells)
        return np.array([float(self.backend.to_host(score)) for score in scores])

    @cached_property
    def _total(self) -> float:
        return max(float(self.backend.to_host((self.residuals[0] ** 2).sum())), 1e-300)


def net_of_inputs(scores: Array, inputs: list[Array]) -> Array:
    """Return scores minus the best score of the input columns of each candidate, for each permutation separately.

    What is left of an input's own effect is thus not mistaken for the effect of a combination.
    """
    if not len(scores):
        return scores
    return scores - np.stack([np.maximum(own.max(axis=0), 0.0) for own in inputs])

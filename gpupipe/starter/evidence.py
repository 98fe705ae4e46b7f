"""Evidence that a column restates the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpupipe.starter.sample import FOLDS
from gpupipe.typing import Array

MIN_ROWS = 60  # with fewer, a good column looks like a leak
MIN_OTHERS = 20  # rows outside the most frequent class, required as evidence
FEW_ERRORS, MORE_ERRORS = 0.01, 0.05  # of those rows; with more, the column must add to a model of the others
MIN_GAIN_OF_TEXT = 0.02  # of the target's variance; for texts with three or more levels, which are rarely measurements


@dataclass(frozen=True)
class Suspicion:
    """Evidence against a column, and the minimum gain over a model of the other columns to drop it."""

    evidence: str
    least_gain: float = -np.inf


Suspicions = dict[str, Suspicion]


@dataclass(frozen=True)
class Determination:
    """Accuracy with which one column's levels determine another's, on held-out rows with known levels."""

    n_rows: int
    n_errors: int
    n_others: int  # rows outside the most frequent outcome: the errors without the column
    min_others: int = MIN_OTHERS

    @property
    def is_exact(self) -> bool:
        """True if errors are rare enough to be data errors."""
        return self.n_others >= self.min_others and self.n_errors <= FEW_ERRORS * self.n_others

    @property
    def is_near(self) -> bool:
        """True if errors are rare."""
        return self.n_others >= self.min_others and self.n_errors <= MORE_ERRORS * self.n_others


def determination(codes: Array, outcomes: Array, fold: Array) -> Determination:
    """Return how accurately `codes` determine `outcomes`, both codes from 0; all zeros if most levels are unique."""
    n_codes, n_outcomes = int(codes.max(initial=0)) + 1, int(outcomes.max(initial=0)) + 1
    cells = codes * n_outcomes + outcomes
    everything = np.bincount(cells, minlength=n_codes * n_outcomes).reshape(n_codes, n_outcomes)
    n_rows = n_errors = 0
    seen_outcomes = np.zeros(n_outcomes, np.int64)
    for k in range(FOLDS):
        test = fold == k
        held_out = np.bincount(cells[test], minlength=n_codes * n_outcomes).reshape(n_codes, n_outcomes)
        learned = everything - held_out
        seen = learned.sum(axis=1) > 0
        n_rows += int(held_out[seen].sum())
        right = held_out[seen, learned[seen].argmax(axis=1)]
        n_errors += int(held_out[seen].sum() - right.sum())
        seen_outcomes += held_out[seen].sum(axis=0)
    if n_rows < len(codes) / 2:
        return Determination(0, 0, 0)
    return Determination(n_rows, n_errors, n_rows - int(seen_outcomes.max()))


def grouped(keys: Mapping[str, bytes]) -> list[list[str]]:
    """Return the names grouped by key, in order of first appearance."""
    groups: dict[bytes, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    return list(groups.values())

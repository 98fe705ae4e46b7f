"""Greedy ensemble selection with replacement (Caruana et al., 2004)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpupipe.typing import Array

ROUNDS = 40
"""Draws of the selection: weights are multiples of 1/40 at the finest."""


@dataclass(frozen=True)
class SelectedWeights:
    """Weights of an ensemble.

    There is one weight per candidate, and they sum to 1; it is 0 for candidates that are not members. `score` is that
    of the weighted mean of the predictions.
    """

    weights: tuple[float, ...]
    score: float


def select_weights(
    predictions: Sequence[Array],
    score: Callable[[Array], float],
    *,
    n_members: int,
    n_rounds: int = ROUNDS,
    costs: Sequence[float] | None = None,
    budget: float = math.inf,
    is_over: Callable[[], bool] = lambda: False,
) -> SelectedWeights:
    """Return the weights of the candidates whose mean prediction has the highest score.

    Each round adds the candidate that improves the mean most; a candidate may be added again, which raises its weight.
    The weights are those of the best round. Ties go to fewer rounds and fewer members, so that the best single
    candidate stays alone if no combination is better.

    - `predictions` (sequence of array of float64, each of shape (n,) or (n, k)): predictions of each candidate for the
      same rows, none by a model that was trained on the row
    - `score`: returns the score of such an array; higher is better. NaN is worse than any number.
    - `n_members`: maximum number of candidates with a weight
    - `costs`: cost of each candidate, such as its latency; counted once, however often it is added
    - `budget`: maximum total cost of the members. The cheapest candidate stays alone if even that is more expensive.
    - `is_over`: whether the time is over; checked before each round after the first

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array([0.0, 0.0, 1.0, 1.0])
    >>> candidates = [y + 0.2, y - 0.2, y + 5.0]
    >>> select_weights(candidates, lambda p: -abs(p - y).sum(), n_members=3).weights
    (0.5, 0.5, 0.0)
    """
    n = len(predictions)
    prices = [0.0] * n if costs is None else list(costs)
    counts, spent = [0] * n, 0.0
    best = -math.inf
    best_counts = counts
    total = None
    for r in range(1, n_rounds + 1):
        if r > 1 and is_over():
            break
        is_full = sum(count > 0 for count in counts) >= n_members
        allowed = [i for i in range(n) if counts[i] or (not is_full and spent + prices[i] <= budget)]
        if not allowed:  # the first round only: not even one candidate is within the budget
            allowed = [min(range(n), key=prices.__getitem__)]
        scores = [_number(score(predictions[i] if total is None else (total + predictions[i]) / r)) for i in allowed]
        # Of equal scores: a member before a new candidate, an earlier candidate before a later one.
        k = max(range(len(allowed)), key=lambda k: (scores[k], counts[allowed[k]] > 0, -allowed[k]))
        chosen = allowed[k]
        spent += 0.0 if counts[chosen] else prices[chosen]
        counts = [count + (i == chosen) for i, count in enumerate(counts)]
        total = predictions[chosen] if total is None else total + predictions[chosen]
        if scores[k] > best or r == 1:
            best, best_counts = scores[k], counts
    return SelectedWeights(tuple(count / sum(best_counts) for count in best_counts), best)


def _number(score: float) -> float:
    return -math.inf if math.isnan(score) else score

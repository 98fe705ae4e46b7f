"""Shapley values by their definition: the mean change of the prediction over all orders of the players."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np


def shapley_values(
    predict: Callable[[Any], Any], x: Any, background: Any, groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """Return the values of one row, float64, shape (n_margins, n_players), interventional over the background rows."""
    groups = groups or [[j] for j in range(len(x))]

    @cache
    def worth(known: frozenset[int]) -> Any:
        rows = background.copy()
        for player in known:
            rows[:, groups[player]] = x[groups[player]]
        return predict(rows).mean(axis=0)

    orders = list(permutations(range(len(groups))))
    total: Any = 0.0
    for order in orders:
        gains = [worth(frozenset(order[: i + 1])) - worth(frozenset(order[:i])) for i in range(len(order))]
        total = total + np.stack(gains, axis=1)[:, np.argsort(order)]
    return total / len(orders)

"""Time limit of an ensemble: elapsed time, and predicted costs of models."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from statistics import median

from gpupipe.training.ensemble.portfolio import PortfolioEntry

LATER_SHARE, MOST_LATER_SECONDS = 0.15, 30.0
"""Share of the time limit kept for predictions, explanation, export and report, and the most seconds that they get."""
WEIGHTS_SHARE = 0.02
"""Share of a training round kept for the selection of weights."""


def round_seconds(time_limit: float, n_rounds: int = 1) -> float:
    """Return the seconds of each of `n_rounds` training rounds, which leave time for what follows the last one.

    Examples
    --------
    >>> round_seconds(60.0), round_seconds(600.0, 2)
    (51.0, 285.0)
    """
    return (time_limit - min(LATER_SHARE * time_limit, MOST_LATER_SECONDS)) / n_rounds


class TrainingTime:
    """Elapsed and remaining time of the training of an ensemble.

    The cost of a fold is predicted from the folds that were measured: those of the same entry, else of the same model,
    else all. `limit` is that of a training round, in seconds, as the time that `clock` returns; None: no limit.
    """

    def __init__(self, limit: float | None, clock: Callable[[], float]) -> None:
        self.limit = limit
        self._clock = clock
        self._start = clock()
        self._deadline = math.inf if limit is None else limit * (1 - WEIGHTS_SHARE)
        self._resumed = 0.0
        self._units: dict[str, dict[str, list[float]]] = {}  # by name and label

    @property
    def is_measured(self) -> bool:
        """True once the seconds of a fold were measured."""
        return bool(self._units)

    def is_measured_for(self, entry: PortfolioEntry) -> bool:
        """Return whether the seconds of a fold were measured for a model of this name."""
        return entry.name in self._units

    @property
    def elapsed(self) -> float:
        """Seconds since the start, with those of the checkpoints of an interrupted run."""
        return self._clock() - self._start + self._resumed

    @property
    def remaining(self) -> float:
        """Seconds until training must end; infinite without a limit."""
        return self._deadline - self.elapsed

    def add_resumed(self, seconds: float) -> None:
        """Count the seconds that an interrupted run spent."""
        self._resumed += seconds

    def add_measured(self, entry: PortfolioEntry, seconds: float) -> None:
        """Record the seconds of one fold of an entry."""
        self._units.setdefault(entry.name, {}).setdefault(entry.label, []).append(seconds / entry.cost)

    def fold_seconds(self, entry: PortfolioEntry) -> float:
        """Return the predicted seconds of one fold of an entry; 0 before anything was measured."""
        of_name = self._units.get(entry.name, {})
        every = of_name.values() or chain.from_iterable(each.values() for each in self._units.values())
        units = of_name.get(entry.label) or list(chain.from_iterable(every))
        return entry.cost * median(units) if units else 0.0

"""Early stopping in a search: the number of rounds or epochs that the folds find."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.models import FittedModel, ModelSettings
from gpupipe.models.base import BestRound


class RoundCount:
    """Number of rounds or epochs that the early stopping of one training finds; a callback of the training."""

    def __init__(self) -> None:
        self.best: int | None = None

    def __call__(self, found: BestRound) -> None:
        """Keep the best round."""
        self.best = found.best

    def of(self, fitted: FittedModel) -> int | None:
        """Return the best number of rounds, or of epochs by their losses; None without early stopping."""
        if self.best is None and fitted.history:
            losses = [epoch["validation"] for epoch in fitted.history]
            return losses.index(min(losses)) + 1
        return self.best


def with_mean_rounds(settings: ModelSettings, rounds: Sequence[int], n_rows: int) -> ModelSettings:
    """Return the settings of a training on all rows for the mean number of rounds of the folds.

    Settings that do not stop early are returned unchanged, as are those whose parameters cannot state the number of
    rounds: their training holds out rows once more.
    """
    if not rounds or not settings.can_state_rounds or not settings.stops_early(n_rows):
        return settings
    return settings.with_rounds(max(1, round(sum(rounds) / len(rounds))))

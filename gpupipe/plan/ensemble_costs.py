"""Memory costs of a candidate, or of the ensemble ``best``: those of the models of its portfolio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from gpupipe.backends import choose
from gpupipe.backends.probe import lacks_nothing
from gpupipe.config import ModelEntry
from gpupipe.models.best import Best
from gpupipe.plan.model_costs import ModelCosts, NetworkCosts, costs_of_one
from gpupipe.plan.preview import Preview
from gpupipe.training.ensemble.fold_training import MOST_CELLS
from gpupipe.training.ensemble.folds import fold_choices
from gpupipe.training.ensemble.portfolio import PortfolioEntry, make_portfolio
from gpupipe.training.ensemble.time_limit import round_seconds
from gpupipe.training.steps import TrainingRound, training_steps
from gpupipe.units import format_duration

MATRIX_CELL = 4  # float32
PREDICTED_CELL = 8  # float64
COMPLETE = "the search ends early, with what it has, if memory runs short"


@dataclass(frozen=True)
class EnsembleCosts(ModelCosts):
    """Memory costs of an ensemble: those of the model of its portfolio that needs most.

    Trained models are not included: the search ends before they fill the memory.
    """

    _portfolio: Sequence[PortfolioEntry] = field(init=False)
    _members: Sequence[ModelCosts] = field(init=False)

    def __post_init__(self) -> None:
        model, seen = self._model, self.seen
        has_weights = model.class_weight is not None
        portfolio = make_portfolio(
            seen.goal.task,
            choose("cpu"),
            model.models,
            has_weights=has_weights,
            has_groups=seen.has_groups or model.out_of_fold,
            has_times=seen.has_times,
        )
        entries = [ModelEntry(name=each.name, params=each.settings) for each in portfolio]
        object.__setattr__(self, "_portfolio", portfolio)
        object.__setattr__(self, "_members", [costs_of_one(entry, seen) for entry in entries])

    @property
    def _model(self) -> Best:
        assert isinstance(self.entry.params, Best)
        return self.entry.params

    def _n_folds(self, n_rows: int) -> int:
        if self._model.out_of_fold:  # on the folds of split.cv
            return round(1.0 / self.seen.shares.test)
        return fold_choices(n_rows, self._model.folds)[0]

    def libraries(self, on_device: bool) -> dict[str, int]:
        """Return the libraries of all members."""
        return dict(chain.from_iterable(cost.libraries(on_device).items() for cost in self._members))

    def _n_at_once(self, cost: ModelCosts, n_rows: int) -> int:
        """Return the number of folds that the host trains at the same time."""
        is_alone = isinstance(cost, NetworkCosts) or n_rows * self.n_columns > MOST_CELLS
        return 1 if is_alone else choose("cpu").n_threads

    def _fold(self, cost: ModelCosts, n_rows: int) -> int:
        """Return the bytes of the rows of a fold, copied for one training."""
        return MATRIX_CELL * n_rows * cost.n_columns

    def training(self, n_rows: int) -> int:
        """Return the bytes of the folds that train at the same time, and the predictions of all models."""
        n_fitted = n_rows - n_rows // self._n_folds(n_rows)
        needs = [self._fold(cost, n_rows) + cost.training(n_fitted) for cost in self._members]
        folds = [need * self._n_at_once(cost, n_rows) for need, cost in zip(needs, self._members, strict=True)]
        return max(folds) + self._predicted(n_rows)

    def device_training(self, n_rows: int) -> int:
        """Return the bytes of one fold of a model that the device trains; it trains them one after the other."""
        n_fitted = n_rows - n_rows // self._n_folds(n_rows)
        members = [cost for cost in self._members if cost.refusal() is None]
        return max((self._fold(cost, n_rows) + cost.device_training(n_fitted) for cost in members), default=0)

    def _predicted(self, n_rows: int) -> int:
        n_classes = self.seen.goal.n_classes
        return PREDICTED_CELL * (n_classes if n_classes > 2 else 1) * n_rows * len(self._members)

    def kept(self, n_rows: int) -> int:
        """Return 0: the size of the trained models is not predicted."""
        return 0

    def predicting(self, n_rows: int, on_host: bool) -> tuple[int, int]:
        """Return the largest need of a member, and the rows of its batch; members predict one after the other."""
        return max(cost.predicting(n_rows, on_host) for cost in self._members)

    def export(self, n_rows: int) -> int:
        """Return the largest need of a member whose models do not grow with the rows."""
        return max((cost.export(n_rows) for cost in self._members if not cost.kept(n_rows)), default=0)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the number of trainings, and what shares the time limit."""
        shares = self.seen.shares
        n_rows = int(shares.of_rows()["train"] * self.seen.n_rows)
        n_folds, n_forests = self._n_folds(n_rows), sum(each.is_out_of_bag for each in self._portfolio)
        n_models, n_later = len(self._members) - n_forests, int(self.seen.has_times)
        n_trainings = n_models * (n_folds + n_later) + n_forests * (1 + n_later)
        later = ", each also on earlier rows only" * n_later
        forests = f" and {n_forests} forests" * (n_forests > 0)
        limit, steps = self._model.time_limit, training_steps(shares.n_folds, shares.validation is not None)
        n_rounds = sum(isinstance(step, TrainingRound) for step in steps)
        within = ""
        if limit is not None:
            seconds = round_seconds(limit, n_rounds)
            rounds = f" in each of {n_rounds} training rounds" * (n_rounds > 1)
            kept = format_duration(limit - n_rounds * seconds)
            within = (
                f", within {format_duration(seconds)}{rounds}: {format_duration(limit)} less {kept} for explanation, "
                "export and report"
            )
        return (
            f"best: at most {n_models} models × {n_folds} folds{forests}{later} = {n_trainings} trainings{within}",
            f"memory without that of the trained models; {COMPLETE}",
        )

    def refusal(self, lacks: Callable[[str], bool] = lacks_nothing) -> None:
        """Return None: models that a device cannot train are not in the portfolio of a run on it."""


def costs_of(entry: ModelEntry, seen: Preview) -> ModelCosts:
    """Return the memory costs of a candidate."""
    if isinstance(entry.params, Best):
        return EnsembleCosts(entry, seen)
    return costs_of_one(entry, seen)

"""Steps of a run in order: `gpupipe.pipeline.run` executes them, `gpupipe.plan` predicts them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpupipe.config import Config, ModelEntry
from gpupipe.features.history.derivation import derived_ops
from gpupipe.model_parts.decision import is_learned
from gpupipe.models.best import Best

REFIT = "refit: "


@dataclass(frozen=True)
class TrainingRound:
    """Training round: fit the features once, train candidates on the same rows, predict the same rows.

    `label` is the prefix of its stage names. `rows` are those to train on: ``"train"``, the training rows, ``"fit"``,
    the training rows without validation rows, or ``"all"``. The `parts` to predict are any of ``"validation"`` and
    ``"test"``. If `is_refit`, only the best candidate is trained.
    """

    label: str = ""
    rows: str = "train"
    parts: tuple[str, ...] = ("test",)
    fold: int = 0
    is_refit: bool = False


@dataclass(frozen=True)
class EvaluationStep:
    """Evaluation of the predictions of the rounds so far."""

    label: str = ""


@dataclass(frozen=True)
class LatencyMeasurement:
    """Measurement of the single-row latency of the models of the last round."""

    label: str = ""


SelectionStep = TrainingRound | EvaluationStep | LatencyMeasurement


def training_steps(n_folds: int, has_validation: bool, has_latency_limit: bool = False) -> tuple[SelectionStep, ...]:
    """Return the steps between split and explanation.

    `n_folds` is 1 without cross-validation, and 0 if the only candidate is evaluated by its own folds. For
    `has_validation`, which is ignored under cross-validation, see `needs_validation`. `has_latency_limit` is true with
    ``evaluate.max_latency``. The model trained again is measured too: it is the exported one.
    """
    measured = (LatencyMeasurement(),) if has_latency_limit else ()
    measured_again = (LatencyMeasurement(REFIT),) if has_latency_limit else ()
    if n_folds == 0:
        return TrainingRound(parts=()), EvaluationStep(), *measured
    if n_folds > 1:
        rounds = [TrainingRound(f"fold {i + 1} of {n_folds}: ", fold=i) for i in range(n_folds)]
        refit = TrainingRound(REFIT, "all", (), is_refit=True)
        return *rounds, EvaluationStep(), *measured, refit, *measured_again
    if has_validation:
        first, refit = TrainingRound("", "fit", ("validation", "test")), TrainingRound(REFIT, is_refit=True)
        return first, EvaluationStep(), *measured, refit, EvaluationStep(REFIT), *measured_again
    return TrainingRound(), EvaluationStep(), *measured


def needs_validation(config: Config, entries: Sequence[ModelEntry], has_target: bool) -> bool:
    """Return whether a model or a decision is chosen on rows held out of the training rows."""
    return has_target and (len(entries) > 1 or is_learned(config.evaluate))


def is_out_of_fold(entries: Sequence[ModelEntry]) -> bool:
    """Return whether the only candidate is an ensemble that is evaluated by its own folds."""
    return any(isinstance(entry.params, Best) and entry.params.out_of_fold for entry in entries)


class RunSteps(ABC):
    """Steps of a run, as a plan takes them: `walk` calls them in order, subclasses define them.

    `gpupipe.pipeline.run` passes what one step returns to the next; a test holds that both take the same steps.
    """

    config: Config

    def walk(self) -> None:
        """Call every step, in order."""
        self.read()
        if derived_ops(self.config.features):
            self.derive()
        self.split()
        for step in self.training_steps():
            if isinstance(step, TrainingRound):
                self.train_round(step)
            elif isinstance(step, EvaluationStep):
                self.evaluate(step)
            else:
                self.measure_latency(step)
        self.explain()
        self.export()
        if self.config.report.enabled:
            self.report()

    def train_round(self, step: TrainingRound) -> None:
        """Call the steps of a training round."""
        entries = self.entries_of(step)
        self.fit_features(step, entries)
        for entry in entries:
            self.train(step, entry)
            if step.parts:
                self.predict(step, entry)

    @abstractmethod
    def training_steps(self) -> Iterable[SelectionStep]:
        """Return the steps between split and explanation; called after `split`."""

    @abstractmethod
    def entries_of(self, step: TrainingRound) -> Sequence[ModelEntry]:
        """Return the candidates that a round trains."""

    @abstractmethod
    def read(self) -> None:
        """Read and encode the tables."""

    @abstractmethod
    def derive(self) -> None:
        """Derive columns from keys, events and texts."""

    @abstractmethod
    def split(self) -> None:
        """Split the rows into folds, or into training and test rows."""

    @abstractmethod
    def fit_features(self, step: TrainingRound, entries: Sequence[ModelEntry]) -> None:
        """Fit the features of a round and compute its matrices."""

    @abstractmethod
    def train(self, step: TrainingRound, entry: ModelEntry) -> None:
        """Train a candidate of a round."""

    @abstractmethod
    def predict(self, step: TrainingRound, entry: ModelEntry) -> None:
        """Predict the rows of a round with the last trained candidate."""

    @abstractmethod
    def evaluate(self, step: EvaluationStep) -> None:
        """Evaluate predictions, and choose the best candidate."""

    @abstractmethod
    def measure_latency(self, step: LatencyMeasurement) -> None:
        """Measure the single-row latency of candidates, and choose the best one within the limit."""

    @abstractmethod
    def explain(self) -> None:
        """Compute the importances of columns, and the data of the plots."""

    @abstractmethod
    def export(self) -> None:
        """Write the model and the predictions."""

    @abstractmethod
    def report(self) -> None:
        """Write the report."""

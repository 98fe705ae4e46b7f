"""Steps of a run in their order: `gpupipe.pipeline.run` does them, `gpupipe.pipeline.plan` predicts them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from gpupipe.config import Config, ModelEntry
from gpupipe.features.history.derivation import derived_ops
from gpupipe.pipeline.decision import is_learned

REFIT = "refit: "


@dataclass(frozen=True)
class TrainingRound:
    """Fit the features once, train models on the same rows, predict the same parts.

    Attributes
    ----------
    label : str
        Prefix of the names of its stages.
    rows : {"train", "fit", "all"}
        What the models are trained on: the training rows, those of them that are not held out for validation, or all.
    parts : tuple of {"validation", "test"}
        What they predict.
    fold : int
        Index of the fold whose rows these are.
    is_refit : bool
        True if the best model alone is trained, False if all of them are.
    """

    label: str = ""
    rows: str = "train"
    parts: tuple[str, ...] = ("test",)
    fold: int = 0
    is_refit: bool = False


@dataclass(frozen=True)
class Evaluation:
    """Measure the predictions of the rounds so far."""

    label: str = ""


def training_steps(n_folds: int, has_validation: bool) -> tuple[TrainingRound | Evaluation, ...]:
    """Return the steps between split and explanation.

    Parameters
    ----------
    n_folds : int
        1 without cross-validation.
    has_validation : bool
        See `needs_validation`; ignored under cross-validation.
    """
    if n_folds > 1:
        rounds = [TrainingRound(f"fold {i + 1} of {n_folds}: ", fold=i) for i in range(n_folds)]
        return *rounds, Evaluation(), TrainingRound(REFIT, "all", (), is_refit=True)
    if has_validation:
        first, refit = TrainingRound("", "fit", ("validation", "test")), TrainingRound(REFIT, is_refit=True)
        return first, Evaluation(), refit, Evaluation(REFIT)
    return TrainingRound(), Evaluation()


def needs_validation(config: Config, entries: Sequence[ModelEntry], has_target: bool) -> bool:
    """Return whether something is chosen on rows held out of the training rows: a model, or how it decides."""
    return has_target and (len(entries) > 1 or is_learned(config.evaluate))


class RunSteps(ABC):
    """The steps of a run. `walk` takes them in their order; a subclass defines what each of them does.

    Attributes
    ----------
    config : Config
    """

    config: Config

    def walk(self) -> None:
        """Take every step."""
        self.read()
        if derived_ops(self.config.features):
            self.derive()
        self.split()
        for step in self.training_steps():
            if isinstance(step, TrainingRound):
                self.train_round(step)
            else:
                self.evaluate(step)
        self.explain()
        self.export()
        if self.config.report.enabled:
            self.report()

    def train_round(self, step: TrainingRound) -> None:
        """Take the steps of a round."""
        entries = self.entries_of(step)
        self.fit_features(step, entries)
        for entry in entries:
            self.train(step, entry)
            if step.parts:
                self.predict(step, entry)

    @abstractmethod
    def training_steps(self) -> Sequence[TrainingRound | Evaluation]:
        """Return the steps between split and explanation; called after `split`."""

    @abstractmethod
    def entries_of(self, step: TrainingRound) -> Sequence[ModelEntry]:
        """Return the models that a round trains."""

    @abstractmethod
    def read(self) -> None:
        """Read and encode the tables."""

    @abstractmethod
    def derive(self) -> None:
        """Derive columns of keys, events and texts."""

    @abstractmethod
    def split(self) -> None:
        """Divide the rows into folds, or into rows to train on and rows to test on."""

    @abstractmethod
    def fit_features(self, step: TrainingRound, entries: Sequence[ModelEntry]) -> None:
        """Fit the features of a round and write its matrices."""

    @abstractmethod
    def train(self, step: TrainingRound, entry: ModelEntry) -> None:
        """Train a model of a round."""

    @abstractmethod
    def predict(self, step: TrainingRound, entry: ModelEntry) -> None:
        """Predict the parts of a round by the model that was trained last."""

    @abstractmethod
    def evaluate(self, step: Evaluation) -> None:
        """Measure predictions, and choose the best model."""

    @abstractmethod
    def explain(self) -> None:
        """Measure the importances of columns, and what is drawn."""

    @abstractmethod
    def export(self) -> None:
        """Write the model and the predictions."""

    @abstractmethod
    def report(self) -> None:
        """Write the report."""

"""Job of a run: data, configuration and timeline; and training of candidates on its rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import FIX as OUT_OF_MEMORY_FIX
from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.backends.stage import Place
from gpupipe.config import Config, ModelEntry
from gpupipe.errors import DataError
from gpupipe.features.history.derivation import Derivation
from gpupipe.features.program.fitted import write_matrix
from gpupipe.io.input_files import InputFiles
from gpupipe.metrics import evaluate, join_scores
from gpupipe.metrics.clustering import ON_THE_HOST as UNLABELLED_ON_THE_HOST
from gpupipe.metrics.ranked_groups import ON_THE_HOST as GROUPS_ON_THE_HOST
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal, Truth, stratum_codes
from gpupipe.models import ONE_PROCESS, Prediction, Resources
from gpupipe.models.matrix import gather_rows_in_order, predict_matrix, rows_by_worker
from gpupipe.names import count_noun
from gpupipe.splits import Fold
from gpupipe.table.blocks import EncodedTable
from gpupipe.tasks import View
from gpupipe.timeline.timeline import Stage, Timeline
from gpupipe.training.checkpoints.contents import ModelCheckpoint
from gpupipe.training.checkpoints.fold_models import FoldCheckpoints
from gpupipe.training.checkpoints.run_checkpoints import NO_CHECKPOINTS, RESUMED, RunCheckpoints
from gpupipe.training.fit import (
    TrainedModel,
    TrainingSet,
    TrainingStart,
    learn_features,
    require_joint,
    select_rows,
    train,
    training_matrix,
)
from gpupipe.training.preparation.rules import NO_RULES, RuleResults
from gpupipe.training.selection.optional_parts import ends_run, note_failure
from gpupipe.typing import Array, Matrix
from gpupipe.user_warnings import WarningNote

if TYPE_CHECKING:
    from gpupipe.partitions.workers import Workers

Result = TypeVar("Result")


@dataclass(frozen=True)
class Job:
    """Table and target of a run, its configuration, and the backend."""

    config: Config
    backend: Backend
    timeline: Timeline
    table: EncodedTable  # the rows whose target is known
    y: Array | None  # float64, shape (n_rows,), or (n_rows, k) for several targets
    goal: Goal
    metrics: tuple[str, ...]  # the metrics to compute; the first one ranks the leaderboard
    # `groups`, `times`: array, shape (n_rows,): values of the columns of ``split.group`` and ``split.time``
    groups: Array | None = None
    times: Array | None = None
    # float64, shape (n_rows,): the weight of each row (``source.weight``), more than 0; None if all rows weigh
    # 1
    weights: Array | None = None
    row_ids: Array | None = None  # int32 or int64, shape (n_rows,): position of each row in the input
    derivation: Derivation | None = None  # derivation of the columns that are not columns of the input
    resources: Resources = ONE_PROCESS  # resources for training
    workers: Workers | None = None  # the workers of a cluster, which hold the table
    start: TrainingStart | None = None  # where a continued training starts
    rules: RuleResults = NO_RULES  # results of the rules of ``data:``
    # Checkpoints loaded with --resume, and saved for a run that resumes this one
    checkpoints: RunCheckpoints = NO_CHECKPOINTS
    files: InputFiles | None = None  # the files of the table, from which identifiers are read again
    failed_metrics: set[str] = field(default_factory=set)  # metrics that could not be computed, noted in the timeline

    def stage(self, name: str, where: Place | None = None) -> AbstractContextManager[Stage]:
        """Open a stage of the timeline; by default on the backend or on the workers, where the rows are."""
        return self.timeline.stage(name, where or (self.workers or self.backend).place)

    @property
    def metrics_place(self) -> Place:
        """The place where metrics are computed: that of the predictions, or the host for rankings and clusters."""
        reason = UNLABELLED_ON_THE_HOST if self.y is None else GROUPS_ON_THE_HOST
        is_there = self.y is not None and self.goal.task != "ranking"
        if is_there or self.backend.name == "cpu":
            return self.backend.place
        return replace(self.backend.host_place, reason=reason)

    def strata(self, rows: Array | None = None) -> Array | None:
        """Return the code of each row for stratified splits: its class, or that of its classes of several targets.

        `rows` (array of bool, shape (n_rows,)): of several targets: the rows that are split further, as a class may be
        frequent in others only.
        """
        if rows is None or self.y is None or not self.goal.targets:
            return stratum_codes(self.goal, self.y, self.config.split.cv or 0)
        own = stratum_codes(self.goal, self.y[rows])
        if own is None:
            return None
        found: Array = np.zeros(len(self.y), np.int64)
        found[rows] = own
        return found

    def of_targets(self) -> list[Job]:
        """Return the job of each of several targets; empty for a single target."""
        if self.y is None:
            return []
        return [replace(self, goal=goal, y=self.y[:, i]) for i, goal in enumerate(self.goal.targets)]

    def target(self, mask: Array) -> Array | None:
        """Return the target of the rows in `mask`, on the host."""
        taken: Array | None = None if self.y is None else self.y[mask]
        return taken

    def truth(self, rows: Array) -> Truth | None:
        """Return the target of `rows`, a mask or row numbers, with their weights and groups, on the host."""
        return None if self.y is None else Truth(self.y, self.weights, self.ranked_groups).take(rows)

    @cached_property
    def ranked_groups(self) -> Array | None:
        """Code of the group of each row of a ranking, int64, on the host."""
        if self.goal.task != "ranking" or self.groups is None:
            return None
        codes: Array = np.unique(self.groups, return_inverse=True)[1].astype(np.int64)
        return codes

    def device_truth(self, rows: Array) -> Truth | None:
        """Return the target of `rows`, a mask or row numbers, with their weights and groups, on the backend."""
        truth = self.truth(rows)
        return None if truth is None else truth.mapped(self.backend.to_device)

    def rows(self, mask: Array) -> TrainingSet:
        """Return the rows in `mask` as a training set."""
        found = select_rows(
            self.table,
            self.y,
            mask,
            self.goal,
            self.config,
            self.backend,
            self.derivation,
            self.groups,
            self.times,
            self.weights,
        )
        found.start = self.start
        return found

    def score(
        self, truth: Truth | None, prediction: Prediction, decision: Decision, X: Matrix | None = None
    ) -> dict[str, float]:
        """Return the metrics of a prediction; the matrix of its rows is needed for metrics without a target.

        Those of several targets are the means, under the names of the metrics, and those of each: see `join_scores`.
        A metric that cannot be computed is NaN, with a warning.
        """
        if self.goal.targets:
            assert truth is not None
            parts = zip(self.of_targets(), prediction.parts, decision.targets, strict=True)
            scores = [job.score(truth.of_target(i), part, own) for i, (job, part, own) in enumerate(parts)]
            return join_scores(self.goal.names, scores)

        def evaluate_on(backend: Backend, truth: Truth | None, prediction: Prediction) -> dict[str, float]:
            y, weights, groups = (None,) * 3 if truth is None else (truth.y, truth.weights, truth.groups)
            return evaluate(
                self.goal.task,
                y,
                decision.apply(prediction, backend).output,
                self.metrics,
                decision.threshold,
                self.goal.n_classes,
                None if X is None else partial(gather_rows_in_order, X, backend=self.backend),
                sample_weight=weights,
                costs=self.config.evaluate.cost,
                quantiles=self.goal.quantiles,
                groups=groups,
                backend=backend,
            )

        try:
            return self.measure(evaluate_on, truth, prediction)
        except Exception as error:
            if ends_run(error):
                raise
            if len(self.metrics) > 1 and not isinstance(error, DataError):  # a DataError is about the prediction
                found: dict[str, float] = {}
                for name in self.metrics:
                    found |= replace(self, metrics=(name,)).score(truth, prediction, decision, X)
                return found
            if not self.failed_metrics.issuperset(self.metrics):
                self.failed_metrics.update(self.metrics)
                note_failure(self.timeline, f"{', '.join(self.metrics)} could not be computed", error)
            return dict.fromkeys(self.metrics, float("nan"))

    def measure(
        self, work: Callable[[Backend, Truth | None, Prediction], Result], truth: Truth | None, prediction: Prediction
    ) -> Result:
        """Return ``work(backend, truth, prediction)``, with all arrays on that backend.

        This is the backend of the job, or the host if the device runs out of memory.

        Raise DeviceError if the device runs out of memory and fallback is forbidden.
        """
        try:
            return work(self.backend, None if truth is None else truth.mapped(self.backend.to_device), prediction)
        except Exception as error:
            if self.backend.name == "cpu" or not is_out_of_memory(error):
                raise
        # After the handler: the exception keeps the memory of its frames allocated.
        self.backend.fall_back("out of device memory while sorting all predictions", "evaluate", OUT_OF_MEMORY_FIX)
        on_host = prediction.mapped(self.backend.to_host)
        return work(self.backend.host, None if truth is None else truth.mapped(self.backend.to_host), on_host)


@dataclass(frozen=True)
class Candidate:
    """Model trained on some rows, and its predictions for others."""

    trained: TrainedModel
    # Name of a set of rows ("test", "validation") to its feature matrix, shared by the models of one view
    matrices: Mapping[str, Matrix]
    predictions: Mapping[str, Prediction]


def tuned_entry(entry: ModelEntry, found: ModelCheckpoint) -> ModelEntry:
    """Return an entry with the tuned parameters of its checkpoint, or the entry itself without any."""
    if found.tuned is None:
        return entry
    return entry.model_copy(update={"params": type(entry.params).model_validate(found.tuned), "tune": None})


class CandidateTraining:
    """Training of candidates on the same rows: features first, then each model and its predictions.

    - `fit_mask` (array of bool, shape (n_rows,)): the training rows, from which everything is learned
    - `parts`: sets of rows to predict, by name
    - `label`: prefix of the stage names
    - `n_rounds`: number of training rounds of the run
    - `folds`: folds of all rows, which evaluate an ensemble that is trained on them

    `candidates`: the candidates so far, in the order of training.
    """

    def __init__(
        self,
        job: Job,
        entries: Sequence[ModelEntry],
        fit_mask: Array,
        parts: Mapping[str, Array],
        label: str = "",
        n_rounds: int = 1,
        folds: Sequence[Fold] = (),
    ) -> None:
        self.job = job
        self.entries = entries
        self.label = label
        self.n_rounds = n_rounds
        self.candidates: list[Candidate] = []
        self._fit_mask, self._parts = fit_mask, parts
        self._folds = folds
        self._checkpoints = job.checkpoints.of_rows(label, job.config, job.backend, fit_mask, parts)
        # Of an ensemble with given folds, the models of folds are saved, but not those that evaluate it.
        load = self._checkpoints.load_model
        self._kept = {entry.label: (None, "") if folds else load(entry) for entry in entries}
        self._rows: TrainingSet
        self._matrices: Mapping[View, Mapping[str, Matrix]] = {}
        self._trained: TrainedModel | None = None
        self._n_predicted = 0

    def fit_features(self) -> None:
        """Fit the features of all views, and compute the matrices of all sets of rows."""
        job = self.job
        untrained = [entry for entry in self.entries if self._kept[entry.label][0] is None]
        with job.stage(f"{self.label}features") as stage:
            rows = self._fitted({entry.params.view for entry in untrained}, stage)
            require_joint(untrained, job.goal, rows.features)
            tables = {part: job.table.take(mask, job.backend) for part, mask in self._parts.items()}
            self._matrices = {
                view: {part: write_matrix(table, features, job.backend) for part, table in tables.items()}
                for view, features in rows.features.items()
            }
            self._rows, self._n_predicted = rows, sum(table.n_rows for table in tables.values())
            stage.rows = rows.n_rows + self._n_predicted
            stage.interpreter = job.backend.last_interpreter
            stage.rows_held = next((rows_by_worker(matrix) for matrix in rows.matrices.values()), {})

    def train(self, entry: ModelEntry) -> None:
        """Train a model, or load it with its predictions from its checkpoint."""
        job = self.job
        rows = self._rows
        matrices = self._matrices[entry.params.view]
        found, why = self._kept[entry.label]
        if found is not None:
            with job.stage(f"{self.label}train {entry.label}", job.backend.host_place) as stage:
                stage.note(RESUMED)
                for note in found.model.notes:
                    stage.note(note)
                predictions = {part: kept.mapped(job.backend.to_device) for part, kept in found.predictions.items()}
            features = rows.features[entry.params.view]
            resumed = TrainedModel(tuned_entry(entry, found), features, found.model, found.seconds, found.search)
            self.candidates.append(Candidate(resumed, matrices, predictions))
            return
        with job.stage(f"{self.label}train {entry.label}") as stage:
            resources = self._checkpoints.resources(entry, job.resources)
            trials = resources.checkpoint if entry.tune is not None else None
            if why and (trials is None or not trials.exists()):  # a search that continues notes how many trials it has
                stage.note(why)
            self._trained = trained = train(
                entry,
                rows,
                job.goal,
                job.config,
                job.backend,
                resources,
                job.metrics[0],
                self.n_rounds,
                FoldCheckpoints(self._checkpoints, entry),
            )
            stage.rows = rows.n_rows
            stage.rows_held = rows_by_worker(rows.matrices[entry.params.view])
            self._release_matrix(entry)
            warned = {note.text for note in job.timeline.all_notes("warning")}  # by an earlier fold
            for note in (*trained.model.notes, *map(str, trained.model.receipts)):
                if note not in warned:
                    stage.note(note, "warning" if isinstance(note, WarningNote) else "info")
            if trained.search is not None and trained.search.kind == "ensemble":  # tuning has its own notes
                stage.note(trained.search.summary())
            stage.receipts = [asdict(receipt) for receipt in trained.model.receipts]
            stage.epochs = [dict(epoch) for epoch in trained.model.history]
        if not self._parts:
            self._add(entry, trained, {})

    def _release_matrix(self, entry: ModelEntry) -> None:
        """Release the training matrix after the last candidate of its view: predicting needs memory too."""
        later = self.entries[[each.label for each in self.entries].index(entry.label) + 1 :]
        if all(each.params.view != entry.params.view for each in later):
            del self._rows.matrices[entry.params.view]

    def predict(self, entry: ModelEntry) -> None:
        """Predict all sets of rows with the last trained model, unless its checkpoint has the predictions."""
        job, trained = self.job, self._trained
        if trained is None:
            return
        with job.timeline.postpone_stop(), job.stage(f"{self.label}predict {entry.label}") as stage:
            matrices = self._matrices[entry.params.view]
            predictions = {part: predict_matrix(X, trained.model, job.backend) for part, X in matrices.items()}
            stage.rows = self._n_predicted
        self._add(entry, trained, predictions)

    def _add(self, entry: ModelEntry, trained: TrainedModel, predictions: Mapping[str, Prediction]) -> None:
        if not self._folds:
            self._checkpoints.save_model(entry, trained, predictions)
        self.candidates.append(Candidate(trained, self._matrices[trained.entry.params.view], predictions))
        self._trained = None

    def _fitted(self, needed: Collection[View], stage: Stage) -> TrainingSet:
        """Return the features of all views, resumed or fitted, with the matrices of the views in `needed`.

        The training rows are not selected if nothing is learned from them.
        """
        job = self.job
        checkpoints = self._checkpoints
        mask = self._fit_mask
        labels: dict[View, list[str]] = {}
        for entry in self.entries:
            labels.setdefault(entry.params.view, []).append(entry.label)
        kept = {view: checkpoints.load_features(view, job.derivation)[0] for view in labels}
        is_fit = bool(needed) or None in kept.values()
        rows = job.rows(mask) if is_fit else TrainingSet(int(mask.sum()), None, None, job.derivation)
        rows.folds = self._folds
        seconds = {}
        for view, found in kept.items():
            start = time.perf_counter()
            if found is not None:
                rows.features[view] = found
            features = learn_features(rows, view, job.config.features)
            seconds[view] = time.perf_counter() - start
            if view in needed:
                training_matrix(rows, view, job.backend)
            resumed = f", {RESUMED}" if found else ""
            stage.note(f"{count_noun(len(features.names), 'column')} for {', '.join(labels[view])}{resumed}")
            for note in features.notes:
                stage.note(note)
            warned = {note.text for note in job.timeline.all_notes("warning")}  # by an earlier fold or view
            for warning in features.warnings:
                if warning not in warned:
                    stage.note(warning, "warning")
        rows.release()
        for view, features in rows.features.items():
            checkpoints.save_features(view, features, seconds[view])
        return rows

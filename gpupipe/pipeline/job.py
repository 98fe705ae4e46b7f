"""The job of a run: its data, configuration and timeline; candidates are trained on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import FIX as OUT_OF_MEMORY_FIX
from gpupipe.backends.out_of_memory import is_out_of_memory
from gpupipe.backends.stage import Place
from gpupipe.config import Config, ModelEntry
from gpupipe.features.history.derivation import Derivation
from gpupipe.features.program.fitted import write_matrix
from gpupipe.metrics import evaluate
from gpupipe.metrics.clustering import ON_THE_HOST as UNLABELLED_ON_THE_HOST
from gpupipe.models import ONE_PROCESS, Prediction, Resources
from gpupipe.models.matrix import gather_rows_in_order, predict_matrix, rows_by_worker
from gpupipe.pipeline.checkpoints import NO_CHECKPOINTS, RESUMED, ModelCheckpoint, RunCheckpoints, TrainingCheckpoints
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.rules import NO_RULES, RuleResults
from gpupipe.pipeline.target import Goal
from gpupipe.pipeline.timeline import Stage, Timeline
from gpupipe.pipeline.training import TrainedModel, TrainingSet, learn_features, select_rows, train, training_matrix
from gpupipe.table.blocks import EncodedTable
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import Array, Matrix

if TYPE_CHECKING:
    from gpupipe.partitions.workers import Workers

Result = TypeVar("Result")


@dataclass(frozen=True)
class Job:
    """The table of a run and its target, the configuration, and where to work.

    Attributes
    ----------
    config : Config
    backend : Backend
    timeline : Timeline
    table : Table or PartitionedTable
        The rows whose target is known.
    y : array of float64, shape (n_rows,), optional
    goal : Goal
    metrics : tuple of str
        To be measured; the first orders the leaderboard.
    groups, times : array, shape (n_rows,), optional
        What the split keeps together, or in order.
    row_ids : array of int32 or int64, shape (n_rows,)
        Which row of the input each row is.
    derivation : Derivation, optional
        How those columns of the table came about that are no columns of the input.
    resources : Resources
        What long trainings may use.
    workers : Workers, optional
        Those of a cluster, which hold the table.
    rules : RuleResults
        Of the rules of ``data:``.
    checkpoints : RunCheckpoints
        Loaded with --resume, and saved for a run that resumes this one.
    """

    config: Config
    backend: Backend
    timeline: Timeline
    table: EncodedTable
    y: Array | None
    goal: Goal
    metrics: tuple[str, ...]
    groups: Array | None = None
    times: Array | None = None
    row_ids: Array | None = None
    derivation: Derivation | None = None
    resources: Resources = ONE_PROCESS
    workers: Workers | None = None
    rules: RuleResults = NO_RULES
    checkpoints: RunCheckpoints = NO_CHECKPOINTS

    def stage(self, name: str, where: Place | None = None) -> AbstractContextManager[Stage]:
        """Open a stage of the timeline; by default where the rows are: on this backend, or on the workers."""
        return self.timeline.stage(name, where or (self.workers or self.backend).place)

    @property
    def metrics_place(self) -> Place:
        """Where predictions are measured: where they are, if there is a target to compare them with."""
        has_truth = self.y is not None or self.backend.name == "cpu"
        return self.backend.place if has_truth else replace(self.backend.host_place, reason=UNLABELLED_ON_THE_HOST)

    @property
    def classes(self) -> Array | None:
        """Class code of each row where the task is classification; what a split may be stratified by."""
        return None if self.y is None or self.goal.task not in CLASSIFICATION else self.y.astype("int64")

    def target(self, mask: Array) -> Array | None:
        """Return the target of some rows, on the host."""
        taken: Array | None = None if self.y is None else self.y[mask]
        return taken

    def truth(self, mask: Array) -> Array | None:
        """Return the target of some rows, where predictions are."""
        return None if self.y is None else self.backend.to_device(self.y[mask])

    def rows(self, mask: Array) -> TrainingSet:
        """Return some rows, ready to be fitted."""
        return select_rows(self.table, self.y, mask, self.goal, self.config, self.backend, self.derivation)

    def score(
        self, y: Array | None, prediction: Prediction, decision: Decision, X: Matrix | None = None
    ) -> dict[str, float]:
        """Return the metrics of a prediction; the matrix of its rows judges those that have no target."""

        def evaluate_on(backend: Backend, y: Array | None, prediction: Prediction) -> dict[str, float]:
            return evaluate(
                self.goal.task, y, decision.apply(prediction, backend).output, self.metrics, decision.threshold,
                self.goal.n_classes, None if X is None else partial(gather_rows_in_order, X, backend=self.backend),
                costs=self.config.evaluate.cost, backend=backend,
            )  # fmt: skip

        return self.measure(evaluate_on, y, prediction)

    def measure(
        self, work: Callable[[Backend, Array | None, Prediction], Result], y: Array | None, prediction: Prediction
    ) -> Result:
        """Return ``work(backend, y, prediction)`` of all rows of a prediction, with both where that backend computes.

        It is that of the job; where its device has no room for them, the host's.

        Raises
        ------
        DeviceError
            If the device has no room, and must not leave anything to the host.
        """
        try:
            return work(self.backend, None if y is None else self.backend.to_device(y), prediction)
        except Exception as error:
            if self.backend.name == "cpu" or not is_out_of_memory(error):
                raise
        # Behind the handler: the error holds what its functions had allocated.
        self.backend.fall_back("the device has no room to sort all predictions", "evaluate", OUT_OF_MEMORY_FIX)
        on_host = prediction.mapped(self.backend.to_host)
        return work(self.backend.host, None if y is None else self.backend.to_host(y), on_host)


@dataclass(frozen=True)
class Candidate:
    """A model trained on some rows, and its predictions for other parts of the rows.

    Attributes
    ----------
    trained : TrainedModel
    matrices : mapping of str to array
        Part to its feature matrix; shared by the models of one view.
    predictions : mapping of str to Prediction
    """

    trained: TrainedModel
    matrices: Mapping[str, Matrix]
    predictions: Mapping[str, Prediction]


def train_candidates(
    job: Job, entries: Sequence[ModelEntry], fit_mask: Array, parts: Mapping[str, Array], label: str = ""
) -> list[Candidate]:
    """Fit the features once, train every model on the same rows, predict the same parts.

    Parameters
    ----------
    job : Job
    entries : sequence of ModelEntry
    fit_mask : array of bool, shape (n_rows,)
        The training rows; everything that is learned comes from them.
    parts : mapping of str to array of bool
        Parts to predict, by name.
    label : str
        Put before the names of the stages.
    """
    checkpoints = job.checkpoints.of_rows(label, job.config, job.backend, fit_mask, parts)
    kept = {entry.label: checkpoints.load_model(entry) for entry in entries}
    untrained = [entry for entry in entries if kept[entry.label][0] is None]
    with job.stage(f"{label}features") as stage:
        rows = _fitted(job, entries, untrained, fit_mask, checkpoints, stage)
        tables = {part: job.table.take(mask, job.backend) for part, mask in parts.items()}
        matrices = {
            view: {part: write_matrix(table, features, job.backend) for part, table in tables.items()}
            for view, features in rows.features.items()
        }
        stage.rows = rows.n_rows + sum(table.n_rows for table in tables.values())
        stage.interpreter = job.backend.last_interpreter
        stage.rows_held = next((rows_by_worker(matrix) for matrix in rows.matrices.values()), {})
    candidates = []
    for entry in entries:
        found, why = kept[entry.label]
        mine = matrices[entry.params.view]
        if found is not None:
            candidates.append(_resumed_candidate(job, entry, found, rows, mine, label))
            continue
        with job.stage(f"{label}train {entry.label}") as stage:
            if why:
                stage.note(why)
            resources = checkpoints.resources(entry, job.resources)
            trained = train(entry, rows, job.goal, job.config, job.backend, resources)
            stage.rows = rows.n_rows
            stage.rows_held = rows_by_worker(rows.matrices[entry.params.view])
            for note in (*trained.model.notes, *map(str, trained.model.receipts)):
                stage.note(note)
            stage.receipts = [asdict(receipt) for receipt in trained.model.receipts]
            stage.epochs = [dict(epoch) for epoch in trained.model.history]
        with job.timeline.postpone_stop(), job.stage(f"{label}predict {entry.label}") as stage:
            predictions = {part: predict_matrix(X, trained.model, job.backend) for part, X in mine.items()}
            stage.rows = sum(table.n_rows for table in tables.values())
        checkpoints.save_model(trained, predictions)
        candidates.append(Candidate(trained, mine, predictions))
    return candidates


def _fitted(
    job: Job,
    entries: Sequence[ModelEntry],
    untrained: Sequence[ModelEntry],
    mask: Array,
    checkpoints: TrainingCheckpoints,
    stage: Stage,
) -> TrainingSet:
    """Return the features of all views, taken up or fitted, and the matrices of those that models are to be trained on.

    The training rows are not even looked at where nothing is to be learned of them.
    """
    views = dict.fromkeys(entry.params.view for entry in entries)
    needed = {entry.params.view for entry in untrained}
    kept = {view: checkpoints.load_features(view, job.derivation)[0] for view in views}
    is_fit = bool(needed) or None in kept.values()
    rows = job.rows(mask) if is_fit else TrainingSet(int(mask.sum()), None, None, job.derivation)
    for view, found in kept.items():
        if found is not None:
            rows.features[view] = found
        features = learn_features(rows, view, job.config.features)
        if view in needed:
            training_matrix(rows, view, job.backend)
        stage.note(f"{len(features.names)} columns for {_names(entries, view)}{f', {RESUMED}' if found else ''}")
        for note in features.notes:
            stage.note(note)
        warned = {note.text for note in job.timeline.all_notes("warning")}  # of an earlier fold, or view
        for warning in features.warnings:
            if warning not in warned:
                stage.note(warning, "warning")
    rows.release()
    for view, features in rows.features.items():
        checkpoints.save_features(view, features)
    return rows


def _resumed_candidate(
    job: Job,
    entry: ModelEntry,
    found: ModelCheckpoint,
    rows: TrainingSet,
    matrices: Mapping[str, Matrix],
    label: str,
) -> Candidate:
    with job.stage(f"{label}train {entry.label}", job.backend.host_place) as stage:
        stage.note(RESUMED)
        for note in found.model.notes:
            stage.note(note)
        predictions = {part: kept.mapped(job.backend.to_device) for part, kept in found.predictions.items()}
    return Candidate(found.trained(entry, rows.features[entry.params.view]), matrices, predictions)


def _names(entries: Sequence[ModelEntry], view: str) -> str:
    return ", ".join(entry.label for entry in entries if entry.params.view == view)

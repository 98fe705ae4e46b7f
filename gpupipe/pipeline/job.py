"""What all stages of one run share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.cluster.workers import Workers
from gpupipe.config import Config, ModelEntry
from gpupipe.features.derived import Derivation
from gpupipe.metrics import evaluate
from gpupipe.models import CLASSIFICATION, ONE_PROCESS, Prediction, Resources
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.spread import AnyTable, matrix_rows, rows_by_worker, take_rows, write_matrix
from gpupipe.pipeline.target import Goal
from gpupipe.pipeline.timeline import Stage, Timeline
from gpupipe.pipeline.timeline_workers import stage_on
from gpupipe.pipeline.training import Rows, Trained, fit_view, select_rows, train

Array = Any


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
    origin : array of int64, shape (n_rows,)
        Which row of the input each row is.
    derivation : Derivation, optional
        How those columns of the table came about that are no columns of the input.
    resources : Resources
        What long trainings may use.
    workers : Workers, optional
        Those of a cluster, which hold the table.
    """

    config: Config
    backend: Backend
    timeline: Timeline
    table: AnyTable
    y: Array
    goal: Goal
    metrics: tuple[str, ...]
    groups: Array = None
    times: Array = None
    origin: Array = None
    derivation: Derivation | None = None
    resources: Resources = ONE_PROCESS
    workers: Workers | None = None

    def stage(self, name: str) -> AbstractContextManager[Stage]:
        """Open a stage of the timeline where the rows are: on this backend, or on the workers of a cluster."""
        return stage_on(self.timeline, self.backend, self.workers, name)

    def stage_on_host(self, name: str) -> AbstractContextManager[Stage]:
        """Open a stage whose work is the host's wherever the matrices are; what it moves is counted."""
        host = self.backend.host
        return self.timeline.stage(name, device=host.name, reason=host.reason, meter=self.backend)

    @property
    def classes(self) -> Array:
        """Class code of each row where the task is classification; what a split may be stratified by."""
        return self.y.astype("int64") if self.goal.task in CLASSIFICATION else None

    def target(self, mask: Array) -> Array:
        """Return the target of some rows."""
        return None if self.y is None else self.y[mask]

    def rows(self, mask: Array) -> Rows:
        """Return some rows, ready to be fitted."""
        return select_rows(self.table, self.y, mask, self.goal, self.config, self.backend, self.derivation)

    def score(self, y: Array, prediction: Prediction, decision: Decision, X: Array = None) -> dict[str, float]:
        """Return the metrics of a prediction."""
        prediction = decision.apply(prediction)
        if X is not None:
            X = matrix_rows(X, None, self.backend) if y is None else None  # else features do not judge
        return evaluate(self.goal.task, y, prediction, self.metrics, decision.threshold, self.goal.n_classes, X=X)


@dataclass(frozen=True)
class Contest:
    """One model trained on some rows, and what it says of parts that it has not seen.

    Attributes
    ----------
    trained : Trained
    matrices : mapping of str to array
        Part to its feature matrix; shared by the models of one view.
    predictions : mapping of str to Prediction
    """

    trained: Trained
    matrices: Mapping[str, Array]
    predictions: Mapping[str, Prediction]


def compete(
    job: Job, entries: Sequence[ModelEntry], fit_mask: Array, parts: Mapping[str, Array], label: str = ""
) -> list[Contest]:
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
    with job.stage(f"{label}features") as stage:
        rows = job.rows(fit_mask)
        views = dict.fromkeys(entry.params.view for entry in entries)
        for view in views:
            features, matrix = fit_view(rows, view, job.config.features, job.backend)
            stage.note(f"{matrix.shape[1]} columns for {_names(entries, view)}")
            for note in features.notes:
                stage.note(note)
        rows.release()
        tables = {part: take_rows(job.table, mask, job.backend) for part, mask in parts.items()}
        matrices = {
            view: {part: write_matrix(rows.features[view], table, job.backend) for part, table in tables.items()}
            for view in views
        }
        stage.rows = rows.n_rows + sum(table.n_rows for table in tables.values())
        stage.interpreter = job.backend.last_interpreter
        stage.rows_held = rows_by_worker(matrix)
    contests = []
    for entry in entries:
        with job.stage(f"{label}train {entry.label}") as stage:
            trained = train(entry, rows, job.goal, job.config, job.backend, job.resources)
            stage.rows = rows.n_rows
            stage.rows_held = rows_by_worker(rows.matrices[entry.params.view])
            for note in (*trained.model.notes, *map(str, trained.model.receipts)):
                stage.note(note)
            stage.receipts = [asdict(receipt) for receipt in trained.model.receipts]
            stage.epochs = [dict(epoch) for epoch in trained.model.history]
        mine = matrices[entry.params.view]
        with job.stage(f"{label}predict {entry.label}") as stage:
            predictions = {part: trained.predict_matrix(X, job.backend) for part, X in mine.items()}
            stage.rows = sum(table.n_rows for table in tables.values())
        contests.append(Contest(trained, mine, predictions))
    return contests


def _names(entries: Sequence[ModelEntry], view: str) -> str:
    return ", ".join(entry.label for entry in entries if entry.params.view == view)

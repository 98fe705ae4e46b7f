"""Execution of a run: read, split, features, train, evaluate, export, report."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from gpupipe.backends import Backend, choose
from gpupipe.backends.polling_thread import PollingThread
from gpupipe.config import Config, ModelEntry, resolved_yaml
from gpupipe.config.locations import locate_errors
from gpupipe.config.redacted_output import redact_output
from gpupipe.errors import GpupipeError
from gpupipe.files.disk import require_room, room_on
from gpupipe.files.jsonfile import write_json
from gpupipe.files.policy import MODE
from gpupipe.io.input_files import InputFiles
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.limits.budget import enforce_limits
from gpupipe.limits.energy import RunHardware
from gpupipe.limits.hardware_samples import sample_hardware
from gpupipe.metrics import ColumnImportance, undefined_notes
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Truth, unseen_labels
from gpupipe.model_parts.latency import Latency
from gpupipe.models import Resources
from gpupipe.models.scikit_learn.fitted import FittedSklearn
from gpupipe.names import count_noun
from gpupipe.pipeline.memory import plan_out_of_core
from gpupipe.pipeline.records.candidate_latency import measure_latency
from gpupipe.pipeline.records.card.card import write_card
from gpupipe.pipeline.records.card.split_record import SplitRecord, record_split
from gpupipe.pipeline.records.champion_explanation import explain_champion
from gpupipe.pipeline.records.drift_reference import collect_reference
from gpupipe.pipeline.records.export import export_model
from gpupipe.pipeline.records.held_out_table import held_out_table
from gpupipe.pipeline.records.importances_and_plots import ExplainedRows, ModelPlots, draw, measure_importances
from gpupipe.pipeline.records.intervals import measure_coverage
from gpupipe.pipeline.records.metrics_document import metrics_document
from gpupipe.pipeline.records.rundir import RunDirectory, default_run_directory
from gpupipe.pipeline.records.trial_rows import make_trial_rows
from gpupipe.pipeline.result import Run
from gpupipe.report.contributions import TargetContributions
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.splits import Fold
from gpupipe.timeline.library_warnings import note_library_warnings
from gpupipe.timeline.log import JsonLog
from gpupipe.timeline.safe_points import StopSignal
from gpupipe.timeline.timeline import Listener, Stage, Timeline
from gpupipe.trackers.run_tracker import RunTracker
from gpupipe.training.checkpoints.keys import CheckpointKey, inputs_key, table_key
from gpupipe.training.checkpoints.run_checkpoints import RunCheckpoints
from gpupipe.training.checkpoints.store import CheckpointStore
from gpupipe.training.ensemble import require_one_process
from gpupipe.training.fit import TrainedModel
from gpupipe.training.imports import import_libraries, record_imports
from gpupipe.training.job import CandidateTraining, Job
from gpupipe.training.preparation.identifiers import find_identifiers
from gpupipe.training.preparation.input_copies import list_inputs
from gpupipe.training.preparation.leakage import split_warnings
from gpupipe.training.preparation.preparation import JobBuilder, choose_entries, folds_of, require_tuning
from gpupipe.training.preparation.run_inputs import run_inputs
from gpupipe.training.selection.leaderboard import LeaderboardResult
from gpupipe.training.selection.optional_parts import describe_error, ends_run, note_failure, optional_part
from gpupipe.training.selection.selection import Selection, make_selection
from gpupipe.training.selection.slices import RowLevels, add_slices, assume_missed, read_levels
from gpupipe.training.steps import Evaluation, LatencyMeasurement, RunSteps, SelectionStep, TrainingRound
from gpupipe.training.tuning.tuned_yaml import NAME as TUNED_YAML
from gpupipe.training.tuning.tuned_yaml import tuned_yaml
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.partitions.workers import Workers

PREDICTED_BYTES = 8  # minimum per row: one number


def run_pipeline(
    config: Config,
    output: Path | None = None,
    listeners: Sequence[Listener] = (),
    *,
    resume: bool = False,
    n_processes: int = 1,
    stop_signal: StopSignal | None = None,
) -> Run:
    """Run a configuration and write a run directory.

    Parameters
    ----------
    output : Path, optional
        The run directory to write. Default: a new one in ``config.output``.
    listeners : sequence of Listener
        Notified of each stage.
    resume : bool
        Resume from the checkpoints of an interrupted run.
    n_processes : int
        Number of processes that train each neural network.
    stop_signal : StopSignal, optional
        Signal that stops the run at its next safe point.

    Raises
    ------
    ConfigError
        If the run directory would replace or add to an input of the run.
    GpupipeError
        A subclass for each reason, see `gpupipe.errors`. The run directory is not created.
    """
    on_cluster = config.cluster.scheduler is not None
    backend = choose("cpu" if on_cluster else config.device, config.device_options)
    if on_cluster:
        backend.reason = "cluster driver process"
    redactor = config.origin.redactor
    final = output if output is not None else default_run_directory(Path(config.output), config.name)
    with ExitStack() as stack:
        stack.enter_context(redact_output(redactor))
        stack.callback(MODE.reset, MODE.set(int(str(config.output_mode), 8)))
        stack.enter_context(room_on(final.parent, "free some space, then resume the run with --resume"))
        stack.enter_context(locate_errors(config.origin))
        require_no_conflict(final, run_inputs(config), contents=["predictions.parquet"])
        store = stack.enter_context(CheckpointStore.for_run(final, resume))
        # Outside of the run directory: a tracked run has succeeded only if the directory has its name.
        tracker = stack.enter_context(RunTracker(config.track))
        directory = stack.enter_context(RunDirectory(final))
        log = stack.enter_context(JsonLog(directory.path / "log.jsonl"))
        timeline = Timeline([log, *listeners, tracker], stop_signal, redactor.hide)
        stack.enter_context(note_library_warnings(timeline))
        workers = stack.enter_context(workers_of(config)) if on_cluster else None
        hardware, polling = RunHardware.of(config, backend, workers, n_processes), stack.enter_context(PollingThread())
        stack.enter_context(enforce_limits(config, timeline, hardware, polling))
        stack.enter_context(sample_hardware(config, timeline, hardware, polling))
        config, files = list_inputs(config, timeline, backend.host_place)
        if not on_cluster and (plan := plan_out_of_core(config, backend, files)) is not None:
            from gpupipe.partitions.out_of_core.workers import out_of_core_workers

            require_room(directory.path, plan.disk_bytes, "the rows, which do not fit into memory,")
            workers = stack.enter_context(out_of_core_workers(backend, plan.on_disk, directory.path))
        key = inputs_key(config, backend, files)
        tracker.start(timeline, config, final, store, key, backend.name, polling)
        resources = Resources(
            n_processes, safe_point=timeline.stop_signal.check, show_progress=timeline.show_progress,
            report_trial=tracker.trial_ended,
        )  # fmt: skip
        execution = _Execution(
            config, backend, timeline, workers, files, resources, store, key, directory, stack, tracker
        )
        execution.walk()
        return execution.write_records()


def workers_of(config: Config) -> AbstractContextManager[Workers]:
    """Return a context manager of the workers of a configured cluster; this imports Dask."""
    from gpupipe.dask.connect import connect

    # limits.memory applies to this process; workers have cluster.memory_limit.
    return connect(config.cluster, config.device, replace(config.device_options, host_limit=None))


class _Execution(JobBuilder, RunSteps):
    """Steps of a run, each a stage of its timeline."""

    def __init__(
        self, config: Config, backend: Backend, timeline: Timeline, workers: Workers | None, files: InputFiles,
        resources: Resources, store: CheckpointStore, key: CheckpointKey, directory: RunDirectory, stack: ExitStack,
        tracker: RunTracker,
    ) -> None:  # fmt: skip
        super().__init__(config, backend, timeline, workers, files)
        self._resources, self._store, self._key, self._directory, self._stack = resources, store, key, directory, stack
        self._tracker = tracker
        self._job: Job
        self._selection: Selection
        self._split_record: SplitRecord
        self._champion_rows: Array
        self._training: CandidateTraining
        self._outcome: LeaderboardResult
        self._importances: list[ColumnImportance] = []
        self._contributions: list[TargetContributions] = []
        self._plots: list[ModelPlots]
        self._coverage: Sequence[IntervalCoverage | None]
        self._tuned: Sequence[ModelEntry] = ()
        self._export_error: Exception | None = None
        self._levels: dict[str, RowLevels] = {}

    def split(self) -> None:
        job = self.build()
        truth = None if job.y is None else Truth(job.y, job.weights)
        checkpoints = RunCheckpoints(self._store, table_key(self._key, job.table, truth, job.goal, job.workers))
        self._stack.enter_context(checkpoints.flush_on_error())
        require_tuning(self.config, job.workers)
        entries = choose_entries(self.config, job.goal, job.backend)
        require_one_process(entries, job.workers)
        # The records of the run show the models and the values of parameters that were used.
        config = job.config.model_copy(update={"models": entries})
        self._job = job = replace(job, config=config, resources=self._resources, checkpoints=checkpoints)
        import_libraries(job, entries)
        with job.stage("split", job.backend.host_place) as stage:
            self._levels = read_levels(job) if job.config.evaluate.by else {}
            folds = folds_of(job)
            stage.rows = job.table.n_rows
            stage.note(_describe(folds, stage.rows))
            unseen = {label for fold in folds for label in unseen_labels(job.goal, job.y, fold.train, fold.test)}
            if unseen:
                known = job.goal.labels or sorted(unseen)
                labels = ", ".join(repr(label) for label in known if label in unseen)
                stage.note(f"class {labels} occurs only in the test rows; no model can predict it", "warning")
            for warning in split_warnings(job, folds):
                stage.note(warning, "warning")
        n_rows = sum(int(fold.test.sum()) for fold in folds)
        # Before any training.
        require_room(self._directory.path, n_rows * PREDICTED_BYTES, "predictions.parquet")
        self._split_record = record_split(job, folds)
        self._selection = make_selection(job, entries, folds)
        self._selection.require_learnable()
        self._tracker.describe(job)

    def training_steps(self) -> Iterable[SelectionStep]:
        return self._selection.steps()

    def entries_of(self, step: TrainingRound) -> Sequence[ModelEntry]:
        return self._selection.entries_of(step)

    def train_round(self, step: TrainingRound) -> None:
        super().train_round(step)
        self._selection.add(self._training.candidates)
        del self._training  # with the matrices of the training rows

    def fit_features(self, step: TrainingRound, entries: Sequence[ModelEntry]) -> None:
        self._training = self._selection.open_round(step)
        self._training.fit_features()

    def train(self, step: TrainingRound, entry: ModelEntry) -> None:
        self._training.train(entry)

    def predict(self, step: TrainingRound, entry: ModelEntry) -> None:
        self._training.predict(entry)

    def evaluate(self, step: Evaluation) -> None:
        self._selection.evaluate(step)

    def measure_latency(self, step: LatencyMeasurement) -> None:
        job, test = self._job, self._selection.folds[-1].test

        def measure(trained: TrainedModel, decision: Decision) -> Latency:
            return measure_latency(job, trained, decision, test, self._directory.path)

        self._selection.measure_latency(step, measure)

    def explain(self) -> None:
        job = self._job
        result, self._tuned = self._selection.result(), self._selection.tuned
        self._champion_rows = self._selection.champion_rows
        self._outcome = outcome = replace(result, champion=result.champion.drop_unread_features())
        del self._selection  # with the matrices of the other candidates
        self._plots, self._coverage = [ModelPlots() for _ in job.goal.each], [None for _ in job.goal.each]
        metrics = outcome.leaderboard[0].metrics.items()
        defined = {name: value for name, value in metrics if name.partition("[")[0] not in job.failed_metrics}
        for note in undefined_notes(job.goal.each[0].task, defined):
            job.timeline.note(note, "warning")
        with job.stage("explain") as stage:
            explained = None
            with self._optional("the coverage of intervals was not measured"):
                each = zip(job.goal.each, outcome.held_out.each, strict=True)
                self._coverage = [measure_coverage(held_out, goal.task, job.backend) for goal, held_out in each]
                for goal, coverage in zip(job.goal.each, self._coverage, strict=True):
                    if coverage is not None:
                        stage.note(f"{goal.target}: {coverage}" if job.goal.targets else str(coverage))
            self._outcome = outcome = assume_missed(outcome, self.config.evaluate.fail_on)
            with self._optional("the metrics of slices were not measured"):
                self._outcome = outcome = add_slices(job, outcome, self._levels, stage)
            with self._optional("the importances of columns were not measured"):
                explained = ExplainedRows.of(job, outcome)
                self._importances = measure_importances(job, outcome, explained, stage)
            if self.config.report.enabled:
                with self._optional("the report has no contributions of columns"):
                    self._contributions = explain_champion(job, outcome, explained)
                with self._optional("the report has no plots of predictions"):
                    self._plots = draw(job, outcome)

    def _optional(self, problem: str) -> AbstractContextManager[None]:
        return optional_part(self._job.timeline, problem)

    def export(self) -> None:
        job, outcome, folder = self._job, self._outcome, self._directory.path
        if any(isinstance(model, FittedSklearn) for model in outcome.champion.model.models):
            record_imports(job.timeline, ["skops.io"])
        with job.stage("export", job.backend.host_place) as stage:
            with (folder / "predictions.parquet").open("wb") as file:  # Arrow itself opens only UTF-8 names
                pq.write_table(held_out_table(job, outcome), file)
            (folder / "config.yaml").write_text(resolved_yaml(job.config), encoding="utf-8")
            if self._tuned:
                text = job.config.origin.redactor.hide(tuned_yaml(self._tuned))
                (folder / TUNED_YAML).write_text(text, encoding="utf-8")
            try:
                self._export_model(folder / "model", stage)
            except Exception as error:
                if ends_run(error):
                    raise
                # The run ends with this error, but keeps its results and, for --resume, its checkpoints.
                self._export_error = error
                note_failure(job.timeline, "the model was not exported", error)
                shutil.rmtree(folder / "model", ignore_errors=True)

    def _export_model(self, folder: Path, stage: Stage) -> None:
        job, outcome, drift = self._job, self._outcome, None
        best, trial = outcome.leaderboard[0], make_trial_rows(job, outcome.champion.features)
        with self._optional("the model has no reference for `gpupipe drift`"):
            drift = collect_reference(job, outcome, self._champion_rows)
        parity = export_model(
            folder, outcome.champion, job.goal, outcome.decision, job.config, best.metrics, trial, job.backend,
            job.rules.served, job.table.schema, self._importances, job.metrics[0],
            find_identifiers(job.config, job.files), drift,
        )  # fmt: skip
        if parity is not None:
            stage.note(f"reloaded on the CPU, the model gives the same output: {parity.summary}")
        with self._optional("the model card was not written"):
            write_card(folder, job, outcome, self._split_record, self._importances, self._coverage, parity)

    def report(self) -> None:
        from gpupipe.pipeline.records.run_report import write_report  # here: it imports the plotting libraries

        with self._job.stage("report", self._job.backend.host_place), self._optional("the report was not written"):
            write_report(
                self._directory.path, self._job, self._outcome, self._importances, self._contributions,
                self._plots, self._tuned, self._coverage, self._split_record,
            )  # fmt: skip

    def write_records(self) -> Run:
        job, outcome, document = self._job, self._outcome, self._write_documents()
        if self.config.track.libraries:
            received = self._optional("trackers have not received all results")
            with job.timeline.postpone_stop(), job.stage("track", job.backend.host_place), received:
                self._tracker.finish(job, outcome, document, self._directory.path)
            document = self._write_documents()  # with that stage, which uploads them as far as they are
        if self._export_error is not None:
            self._directory.is_kept = True
            raise _without_model(self._export_error, self._directory.final) from self._export_error
        return Run(self._directory.final, self._job.config, job.goal, document, outcome.leaderboard, job.timeline)

    def _write_documents(self) -> dict[str, Any]:
        """Write metrics.json and timeline.json; return the content of metrics.json."""
        document = metrics_document(self._outcome, self._job.goal, self._coverage)
        if failures := [note.text for note in self._job.timeline.all_notes() if note.traceback]:
            document["failures"] = failures
        write_json(self._directory.path / "metrics.json", document)
        write_json(self._directory.path / "timeline.json", self._job.timeline.to_json())
        return document


def _without_model(error: Exception, folder: Path) -> GpupipeError:
    """Return the error of a run that has trained its models, but could not export the best one."""
    found = error if isinstance(error, GpupipeError) else GpupipeError(describe_error(error), where="stage export")
    found.advise(f"{folder} has the metrics and predictions; --resume repeats the export without training")
    return found


def _describe(folds: Sequence[Fold], n_rows: int) -> str:
    """Return the numbers of training and test rows; of folds, what is tested of all rows."""
    tested = int(np.count_nonzero(np.logical_or.reduce([fold.test for fold in folds])))
    if len(folds) > 1:
        return (
            f"{len(folds)} folds" if tested == n_rows else f"{len(folds)} folds, which test {count_noun(tested, 'row')}"
        )
    unused = n_rows - tested - int(folds[0].train.sum())
    parts = f"{count_noun(int(folds[0].train.sum()), 'training row')}, {count_noun(tested, 'test row')}"
    return f"{parts}, {count_noun(unused, 'row')} in neither" if unused else parts

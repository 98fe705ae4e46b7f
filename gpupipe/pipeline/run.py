"""Execution of a run: read, split, features, train, evaluate, export, report."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from gpupipe.backends import choose
from gpupipe.backends.polling_thread import PollingThread
from gpupipe.config import Config, ModelEntry, resolved_yaml
from gpupipe.config.locations import locate_errors
from gpupipe.config.redacted_output import redact_output
from gpupipe.errors import GpupipeError
from gpupipe.features.program.learned_columns import complete_rows
from gpupipe.files.disk import require_room, room_on
from gpupipe.files.jsonfile import write_json
from gpupipe.files.policy import MODE
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.limits.budget import enforce_limits
from gpupipe.limits.energy import RunHardware
from gpupipe.limits.hardware_samples import sample_hardware
from gpupipe.metrics import undefined_notes
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.latency import Latency
from gpupipe.models import Resources
from gpupipe.pipeline.memory import plan_out_of_core
from gpupipe.pipeline.records.candidate_latency import measure_latency
from gpupipe.pipeline.records.card.card import write_card
from gpupipe.pipeline.records.champion_explanation import explain_champion
from gpupipe.pipeline.records.drift_reference import collect_held_out, collect_reference
from gpupipe.pipeline.records.export import ModelRecords, export_model
from gpupipe.pipeline.records.held_out_table import held_out_table
from gpupipe.pipeline.records.importances_and_plots import (
    ExplainedRows,
    MeasuredImportances,
    ModelPlots,
    draw,
    measure_importances,
)
from gpupipe.pipeline.records.metrics_document import measure_coverage, metrics_document
from gpupipe.pipeline.records.rundir import RunDirectory, default_run_directory
from gpupipe.pipeline.records.sources import describe_sources
from gpupipe.pipeline.records.trial_rows import make_trial_rows
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.services import RunServices
from gpupipe.pipeline.split_stage import SplitJob, split_rows
from gpupipe.report.contributions import TargetContributions
from gpupipe.report.intervals import IntervalCoverage
from gpupipe.timeline.library_warnings import note_library_warnings
from gpupipe.timeline.log import JsonLog
from gpupipe.timeline.safe_points import StopSignal
from gpupipe.timeline.timeline import Listener, Stage, Timeline
from gpupipe.trackers.run_tracker import RunTracker
from gpupipe.training.checkpoints.keys import inputs_key
from gpupipe.training.checkpoints.store import CheckpointStore
from gpupipe.training.fit import TrainedModel, TrainingStart
from gpupipe.training.job import Candidate, Job
from gpupipe.training.preparation.identifiers import find_identifiers
from gpupipe.training.preparation.input_copies import list_inputs
from gpupipe.training.preparation.preparation import open_job
from gpupipe.training.preparation.run_inputs import run_inputs
from gpupipe.training.selection.leaderboard import LeaderboardResult
from gpupipe.training.selection.optional_parts import describe_error, ends_run, note_failure, optional_part
from gpupipe.training.selection.selection import Selection, make_selection
from gpupipe.training.selection.slices import add_slices, assume_missed
from gpupipe.training.steps import EvaluationStep, TrainingRound
from gpupipe.training.tuning.tuned_yaml import NAME as TUNED_YAML
from gpupipe.training.tuning.tuned_yaml import tuned_yaml
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.partitions.workers import Workers


def run_pipeline(
    config: Config,
    output: Path | None = None,
    listeners: Sequence[Listener] = (),
    *,
    resume: bool = False,
    n_processes: int = 1,
    stop_signal: StopSignal | None = None,
    start: TrainingStart | None = None,
) -> Run:
    """Run a configuration and write a run directory.

    - `output`: the run directory to write. Default: a new one in ``config.output``.
    - `listeners`: notified of each stage
    - `resume`: resume from the checkpoints of an interrupted run
    - `n_processes`: number of processes that train each neural network
    - `stop_signal`: signal that stops the run at its next safe point
    - `start`: features and model of the only candidate, whose training continues

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
            n_processes,
            safe_point=timeline.stop_signal.check,
            show_progress=timeline.show_progress,
            report_trial=tracker.trial_ended,
        )
        services = RunServices(resources, store, key, directory, tracker, stack)
        job = replace(open_job(config, backend, timeline, workers, files), start=start)
        split = split_rows(job, services)
        explained = explain(train_candidates(split, services))
        failure = export(explained, services)
        if config.report.enabled:
            report(explained, directory.path)
        return write_records(explained, services, failure)


def workers_of(config: Config) -> AbstractContextManager[Workers]:
    """Return a context manager of the workers of a configured cluster; this imports Dask."""
    from gpupipe.dask.connect import connect

    # limits.memory applies to this process; workers have cluster.memory_limit.
    return connect(config.cluster, config.device, replace(config.device_options, host_limit=None))


@dataclass(frozen=True)
class TrainedRun:
    """Leaderboard of the candidates, the rows that the best one was trained on, and the entries that were tuned."""

    split: SplitJob
    outcome: LeaderboardResult
    champion_rows: Array
    tuned: Sequence[ModelEntry]


def train_candidates(split: SplitJob, services: RunServices) -> TrainedRun:
    """Train, predict and evaluate all candidates; the matrices of all but the best are released on return."""
    job = split.job
    selection = make_selection(job, split.entries, split.folds)
    selection.require_learnable()
    services.tracker.describe(job)

    def measure(trained: TrainedModel, decision: Decision) -> Latency:
        return measure_latency(job, trained, decision, split.folds[-1].test, services.directory.path)

    for step in selection.steps():
        if isinstance(step, TrainingRound):
            selection.add(_train_round(selection, step))
        elif isinstance(step, EvaluationStep):
            selection.evaluate(step)
        else:
            selection.measure_latency(step, measure)
    result = selection.result()
    outcome = replace(result, champion=result.champion.drop_unread_features())
    table = complete_rows(job.table, job.derivation, outcome.champion.features.lookups, job.backend)
    return TrainedRun(replace(split, job=replace(job, table=table)), outcome, selection.champion_rows, selection.tuned)


def _train_round(selection: Selection, step: TrainingRound) -> list[Candidate]:
    """Return the candidates of a round; the matrix of its training rows is released."""
    training = selection.open_round(step)
    training.fit_features()
    for entry in selection.entries_of(step):
        training.train(entry)
        if step.parts:
            training.predict(entry)
    return training.candidates


@dataclass
class ExplainedRun:
    """Leaderboard with the metrics of slices, and what explains the best model; parts that failed stay empty."""

    trained: TrainedRun
    outcome: LeaderboardResult
    plots: list[ModelPlots]
    coverage: Sequence[IntervalCoverage | None]
    importances: MeasuredImportances = field(default_factory=MeasuredImportances)
    contributions: list[TargetContributions] = field(default_factory=list)

    @property
    def job(self) -> Job:
        """The job, after the split."""
        return self.trained.split.job


def explain(trained: TrainedRun) -> ExplainedRun:
    """Compute coverage, slices, the importances of columns, and the data of the plots."""
    split, job = trained.split, trained.split.job
    found = ExplainedRun(trained, trained.outcome, [ModelPlots() for _ in job.goal.each], [None for _ in job.goal.each])
    metrics = found.outcome.leaderboard[0].metrics.items()
    defined = {name: value for name, value in metrics if name.partition("[")[0] not in job.failed_metrics}
    for note in undefined_notes(job.goal.each[0].task, defined):
        job.timeline.note(note, "warning")
    with job.stage("explain") as stage:
        explained = None
        with optional_part(job.timeline, "the coverage of intervals was not measured"):
            each = zip(job.goal.each, found.outcome.held_out.each, strict=True)
            found.coverage = [measure_coverage(held_out, goal.task, job.backend) for goal, held_out in each]
            for goal, coverage in zip(job.goal.each, found.coverage, strict=True):
                if coverage is not None:
                    stage.note(f"{goal.target}: {coverage}" if job.goal.targets else str(coverage))
        found.outcome = assume_missed(found.outcome, job.config.evaluate.fail_on)
        with optional_part(job.timeline, "the metrics of slices were not measured"):
            found.outcome = add_slices(job, found.outcome, split.levels, stage)
        with optional_part(job.timeline, "the importances of columns were not measured"):
            explained = ExplainedRows.of(job, found.outcome)
            found.importances = measure_importances(job, found.outcome, explained, stage)
        if job.config.report.enabled:
            with optional_part(job.timeline, "the report has no contributions of columns"):
                found.contributions = explain_champion(job, found.outcome, explained)
            with optional_part(job.timeline, "the report has no plots of predictions"):
                found.plots = draw(job, found.outcome)
    return found


def export(explained: ExplainedRun, services: RunServices) -> Exception | None:
    """Write the predictions, the configuration and the model; return the error that prevented the model, if any."""
    job = explained.job
    outcome = explained.outcome
    folder = services.directory.path
    with job.stage("export", job.backend.host_place) as stage:
        with (folder / "predictions.parquet").open("wb") as file:  # Arrow itself opens only UTF-8 names
            pq.write_table(held_out_table(job, outcome), file)
        (folder / "config.yaml").write_text(resolved_yaml(job.config), encoding="utf-8")
        if explained.trained.tuned:
            text = job.config.origin.redactor.hide(tuned_yaml(explained.trained.tuned))
            (folder / TUNED_YAML).write_text(text, encoding="utf-8")
        try:
            _export_model(explained, folder / "model", stage)
        except Exception as error:
            if ends_run(error):
                raise
            # The run ends with this error, but keeps its results and, for --resume, its checkpoints.
            note_failure(job.timeline, "the model was not exported", error)
            shutil.rmtree(folder / "model", ignore_errors=True)
            return error
    return None


def _export_model(explained: ExplainedRun, folder: Path, stage: Stage) -> None:
    job = explained.job
    outcome = explained.outcome
    drift, held_out = None, None
    sources: list[dict[str, Any]] = []
    best, trial = outcome.leaderboard[0], make_trial_rows(job, outcome.champion.features)
    with optional_part(job.timeline, "the model has no reference for `gpupipe drift`"):
        drift = collect_reference(job, outcome, explained.trained.champion_rows)
        held_out = collect_held_out(job, outcome)
    with optional_part(job.timeline, "the model has no record of its sources"):
        sources = describe_sources(job.config, job.files)
    ids = find_identifiers(job.config, job.files)
    times = explained.trained.split.record.training_times
    records = ModelRecords(explained.importances.columns, ids, drift, held_out, times and times[1], sources)
    parity = export_model(folder, outcome.champion, job, outcome.decision, best.metrics, trial, records)
    if parity is not None:
        stage.note(f"reloaded on the CPU, the model gives the same output: {parity.summary}")
    with optional_part(job.timeline, "the model card was not written"):
        record = explained.trained.split.record
        write_card(folder, job, outcome, record, explained.importances.columns, explained.coverage, parity)


def report(explained: ExplainedRun, folder: Path) -> None:
    """Write the report into a run directory."""
    from gpupipe.pipeline.records.run_report import write_report  # here: it imports the plotting libraries

    job, trained = explained.job, explained.trained
    with job.stage("report", job.backend.host_place), optional_part(job.timeline, "the report was not written"):
        write_report(
            folder,
            job,
            explained.outcome,
            explained.importances,
            explained.contributions,
            explained.plots,
            trained.tuned,
            explained.coverage,
            trained.split.record,
        )


def write_records(explained: ExplainedRun, services: RunServices, failure: Exception | None) -> Run:
    """Write metrics.json and timeline.json, and return the run.

    Raise the error that prevented the export of the model; the run directory is kept.
    """
    job = explained.job
    outcome = explained.outcome
    directory = services.directory
    document = _write_documents(explained, directory.path)
    if job.config.track.libraries:
        received = optional_part(job.timeline, "trackers have not received all results")
        with job.timeline.postpone_stop(), job.stage("track", job.backend.host_place), received:
            services.tracker.finish(job, outcome, document, directory.path)
        document = _write_documents(explained, directory.path)  # with that stage, which uploads them as far as they are
    if failure is not None:
        directory.is_kept = True
        error = _without_model(failure, directory.final)
        raise error from (failure.__cause__ if error is failure else failure)  # an error that causes itself has no end
    return Run(directory.final, job.config, job.goal, document, outcome.leaderboard, job.timeline)


def _write_documents(explained: ExplainedRun, folder: Path) -> dict[str, Any]:
    """Write metrics.json and timeline.json; return the content of metrics.json."""
    timeline = explained.job.timeline
    document = metrics_document(explained.outcome, explained.job.goal, explained.coverage)
    if failures := [note.text for note in timeline.all_notes() if note.traceback]:
        document["failures"] = failures
    write_json(folder / "metrics.json", document)
    write_json(folder / "timeline.json", timeline.to_json())
    return document


def _without_model(error: Exception, folder: Path) -> GpupipeError:
    """Return the error of a run that has trained its models, but could not export the best one."""
    found = error if isinstance(error, GpupipeError) else GpupipeError(describe_error(error), where="stage export")
    found.advise(f"{folder} has the metrics and predictions; --resume repeats the export without training")
    return found

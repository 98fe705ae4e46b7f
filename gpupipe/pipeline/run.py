"""The main job, top to bottom: read, split, features, train, evaluate, export, report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from gpupipe.backends import choose
from gpupipe.config import Config, ModelEntry, resolved_yaml
from gpupipe.config.locations import locate_errors
from gpupipe.config.redacted_output import redact_output
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.metrics import undefined_notes
from gpupipe.models import Resources
from gpupipe.pipeline.atomic.disk import require_room, room_on
from gpupipe.pipeline.checkpoints import CheckpointStore, RunCheckpoints, inputs_key, table_key
from gpupipe.pipeline.explanation import ModelPlots, draw, measure_importances
from gpupipe.pipeline.identifiers import find_identifiers
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.leaderboard import LeaderboardResult, run_folds, run_holdout
from gpupipe.pipeline.leakage import split_warnings
from gpupipe.pipeline.limits.budget import enforce_limits
from gpupipe.pipeline.limits.memory import plan_out_of_core
from gpupipe.pipeline.limits.safe_points import StopSignal
from gpupipe.pipeline.log import JsonLog
from gpupipe.pipeline.model.export import export_model
from gpupipe.pipeline.parity.rows import make_trial_rows
from gpupipe.pipeline.predictions import predictions_table
from gpupipe.pipeline.preparation import choose_entries, folds_of, open_job
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run_inputs import run_inputs
from gpupipe.pipeline.rundir.directory import RunDirectory, default_run_directory
from gpupipe.pipeline.target import unseen_labels
from gpupipe.pipeline.timeline import Listener, Timeline
from gpupipe.splits import Fold

if TYPE_CHECKING:
    from gpupipe.partitions.workers import Workers

PREDICTED_BYTES = 8  # of a row, at the least: one number


def run_pipeline(
    config: Config,
    output: Path | None = None,
    listeners: Sequence[Listener] = (),
    *,
    resume: bool = False,
    n_processes: int = 1,
    stop_signal: StopSignal | None = None,
) -> Run:
    """Run a configuration and leave a run directory.

    Parameters
    ----------
    config : Config
    output : Path, optional
        The run directory itself; default: a new one below ``config.output``.
    listeners : sequence of Listener
        Told of each stage as it happens.
    resume : bool
        Whether checkpoints of an interrupted run are used.
    n_processes : int
        How many processes share the training of a network.
    stop_signal : StopSignal, optional
        By which another can have the run stop at its next safe point.

    Returns
    -------
    Run

    Raises
    ------
    ConfigError
        If the run directory would replace or add to something that the run reads.
    GpupipeError
        See `gpupipe.errors`; nothing is left under the final name.
    """
    on_cluster = config.cluster.scheduler is not None
    backend = choose("cpu" if on_cluster else config.device, config.device_options)
    if on_cluster:
        backend.reason = "the process that leads the cluster"
    redactor = config.origin.redactor
    final = output if output is not None else default_run_directory(Path(config.output), config.name)
    with ExitStack() as stack:
        stack.enter_context(redact_output(redactor))
        stack.enter_context(room_on(final.parent, "make room, then run it again with --resume"))
        stack.enter_context(locate_errors(config.origin))
        require_no_conflict(final, run_inputs(config), contents=["predictions.parquet"])
        store = stack.enter_context(CheckpointStore.beside(final, resume))
        directory = stack.enter_context(RunDirectory(final))
        log = stack.enter_context(JsonLog(directory.path / "log.jsonl"))
        timeline = Timeline([log, *listeners], stop_signal, redactor.hide)
        workers = stack.enter_context(workers_of(config)) if on_cluster else None
        stack.enter_context(enforce_limits(config, timeline, backend, workers, n_processes))
        if not on_cluster and (plan := plan_out_of_core(config, backend)) is not None:
            from gpupipe.partitions.out_of_core.workers import out_of_core_workers

            require_room(directory.path, plan.disk_bytes, "the rows, which do not fit into memory,")
            workers = stack.enter_context(out_of_core_workers(backend, plan.on_disk, directory.path))
        key = inputs_key(config, backend)
        job = open_job(config, backend, timeline, workers)
        checkpoints = RunCheckpoints(store, table_key(key, job.table, job.y, job.goal, job.workers))
        stack.enter_context(checkpoints.flush_on_error())
        resources = Resources(n_processes, safe_point=timeline.stop_signal.check, show_progress=timeline.show_progress)
        job = replace(job, resources=resources, checkpoints=checkpoints)
        entries = choose_entries(config, job.goal, backend)
        outcome = evaluate_models(job, entries, directory.path)
        run = Run(directory.final, config, job.goal, metrics_document(outcome), outcome.leaderboard, timeline)
        write_run(directory, job, outcome, run)
    return run


def workers_of(config: Config) -> AbstractContextManager[Workers]:
    """Return the workers of the cluster that a configuration names; Dask is imported for it."""
    from gpupipe.dask.connect import connect

    # A limit of this process is none of the workers, which have cluster.memory_limit.
    return connect(config.cluster, config.device, replace(config.device_options, host_limit=None))


def evaluate_models(job: Job, entries: Sequence[ModelEntry], folder: Path | None = None) -> LeaderboardResult:
    """Split, and run the leaderboard; that the predictions have room in `folder` is asked for before any training."""
    with job.stage("split", job.backend.host_place) as stage:
        folds = folds_of(job)
        stage.rows = job.table.n_rows
        stage.note(f"{len(folds)} folds" if job.config.split.cv else _shares(folds[0]))
        unseen = {label for fold in folds for label in unseen_labels(job.goal, job.y, fold.train, fold.test)}
        if unseen:
            said = ", ".join(repr(label) for label in job.goal.labels if label in unseen)
            stage.note(f"no row to train on has the target {said}: its rows to test on cannot be right", "warning")
        for warning in split_warnings(job, folds):
            stage.note(warning, "warning")
    if folder is not None:
        n_rows = sum(int(fold.test.sum()) for fold in folds)
        require_room(folder, n_rows * PREDICTED_BYTES, "predictions.parquet")
    outcome = run_folds(job, entries, folds) if job.config.split.cv else run_holdout(job, entries, folds[0])
    for note in undefined_notes(job.goal.task, outcome.leaderboard[0].metrics):
        job.timeline.note(note, "warning")
    return outcome


def _shares(fold: Fold) -> str:
    return f"{int(fold.train.sum()):,} rows to train on, {int(fold.test.sum()):,} to test on"


def metrics_document(outcome: LeaderboardResult) -> dict[str, Any]:
    """Return what metrics.json holds."""
    models = {entry.label: entry.metrics for entry in outcome.leaderboard}
    document: dict[str, Any] = {"best": outcome.leaderboard[0].label, "models": models}
    validation = {entry.label: entry.validation for entry in outcome.leaderboard if entry.validation}
    if validation:
        document["validation"] = validation
    if outcome.selection:
        document["selection"] = dict(outcome.selection)
    return document


def write_run(directory: RunDirectory, job: Job, outcome: LeaderboardResult, run: Run) -> None:
    """Write everything of a run but its log, which has been written all along."""
    with job.stage("explain") as stage:
        importances = measure_importances(job, outcome, stage)
        drawing = draw(job, outcome) if job.config.report.enabled else ModelPlots()
    with job.stage("export", job.backend.host_place) as stage:
        best, trial = outcome.leaderboard[0], make_trial_rows(job, outcome.champion.features)
        parity = export_model(
            directory.path / "model", outcome.champion, job.goal, outcome.decision, job.config, best.metrics, trial,
            job.backend, job.rules.served, job.table.schema, importances, job.metrics[0], find_identifiers(job.config),
        )  # fmt: skip
        if parity is not None:
            stage.note(f"read back on the cpu, it gives the same: {parity.summary}")
        with (directory.path / "predictions.parquet").open("wb") as file:  # Arrow opens UTF-8 names only
            pq.write_table(predictions_table(job, outcome), file)
    directory.write_text("config.yaml", resolved_yaml(job.config))
    directory.write_json("metrics.json", run.document)
    if job.config.report.enabled:
        from gpupipe.pipeline.run_report import write_report  # brings the drawing libraries

        with job.stage("report", job.backend.host_place):
            write_report(directory.path, job, outcome, importances, drawing)
    directory.write_json("timeline.json", job.timeline.to_json())

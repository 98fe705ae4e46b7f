"""What is known of a run before a model is trained: its rows, the goal, the models, and the folds."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.cluster.workers import Workers
from gpupipe.config import Config, ModelEntry
from gpupipe.errors import ConfigError
from gpupipe.features.derived import Derivation, derive, derived_ops
from gpupipe.metrics import metric_names
from gpupipe.models import MODELS, early_refusal
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.reading import ReadTable, partitioned, read_spread, read_table
from gpupipe.pipeline.spread import AnyTable, rows_by_worker
from gpupipe.pipeline.target import Goal, TargetColumn, find_goal, known_rows, target_values
from gpupipe.pipeline.timeline import Timeline
from gpupipe.pipeline.timeline_workers import stage_on
from gpupipe.splits import FewRows, Fold, make_splits
from gpupipe.table.arrange import on_device
from gpupipe.table.schema import FIRST_LEVEL

Array = Any

DEFAULT_MODELS = {
    "binary": ("logistic_regression", "hist_gradient_boosting"),
    "multiclass": ("logistic_regression", "hist_gradient_boosting"),
    "regression": ("ridge", "hist_gradient_boosting"),
}
ON_A_GPU = {"hist_gradient_boosting": "xgboost"}  # the same kind of model, where the first has none there


def prepare(config: Config, backend: Backend, timeline: Timeline, workers: Workers | None = None) -> Job:
    """Read the table, derive columns of it, and find out what is to be learned from it.

    With workers, the table lies on them.
    """
    spread = workers is not None and not derived_ops(config.features)
    with stage_on(timeline, backend, workers if spread else None, "read") as stage:
        found = read_spread(config, workers, backend) if workers is not None and spread else read_table(config, backend)
        stage.rows = found.table.n_rows
        for note in found.notes:
            stage.note(note)
        for warning in found.rules.warnings:
            stage.note(warning, "warning")
        target = TargetColumn.of(found.table, config.source.target, backend)
        goal = find_goal(target, config.source.positives, [entry.params for entry in config.models])
        stage.rows_held = rows_by_worker(found.table)
        stage.note(goal.note)
    table, derivation = derive_columns(config, found, backend, timeline)
    if workers is not None and not spread:
        timeline.note("columns are derived by the process that leads; the table is then cut into partitions")
        table = partitioned(table, workers)
    known, origin = known_rows(table, target, backend)
    if dropped := table.n_rows - known.n_rows:
        timeline.note(f"{dropped:,} rows without a target are left out")
    y = target_values(target, origin, goal, config.source.positives)
    names = metric_names(goal.task, config.evaluate)
    groups = None if config.split.group is None else _codes(known, config.split.group, backend)
    times = None if config.split.time is None else _times(known, config.split.time, backend)
    return Job(
        config, backend, timeline, known, y, goal, names, groups, times, origin, derivation, workers=workers,
        rules=found.rules,
    )  # fmt: skip


def derive_columns(
    config: Config, found: ReadTable, backend: Backend, timeline: Timeline
) -> tuple[AnyTable, Derivation | None]:
    """Return the table with the columns that ops make before the split, and how they were made.

    Rows without a target take part: they are history all the same.
    """
    if found.sources is None:
        return found.table, None
    where = found.sources.backend
    with timeline.stage("derive", device=where.name, reason=where.reason, meter=backend) as stage:
        table, derivation = derive(derived_ops(config.features), found.sources)
        table = on_device(table, backend)
        stage.rows = table.n_rows
        stage.interpreter = ", ".join(found.sources.engines) or None
        stage.note(f"{len(derivation.made)} columns of {', '.join(['the table', *derivation.tables])}")
    return table, derivation


def _codes(table: AnyTable, column: str, backend: Backend) -> Array:
    values = backend.to_host(table.column(column))
    return values if table.schema[column].levels is None else values.astype("int64")


def _times(table: AnyTable, column: str, backend: Backend) -> Array:
    kind = table.schema[column].kind
    if kind not in ("datetime", "numeric"):
        raise ConfigError(
            f"split by time: {column!r} is {kind}",
            where="split.time",
            fix=f"declare it: schema: {{{column}: {{kind: datetime, format: '%Y-%m-%d'}}}}",
        )
    return backend.to_host(table.column(column))


def choose_entries(config: Config, goal: Goal, backend: Backend) -> tuple[ModelEntry, ...]:
    """Return the models of the leaderboard, those that suit task and device where none are named.

    Raises
    ------
    ConfigError
        If a model cannot learn the task.
    DeviceError
        If the device cannot train one, and must not leave it to the host.
    """
    if not config.models:
        names = DEFAULT_MODELS[goal.task]
        return tuple(ModelEntry(name=ON_A_GPU.get(n, n) if backend.name == "gpu" else n) for n in names)
    wrong = [entry.name for entry in config.models if goal.task not in entry.params.tasks]
    if wrong:
        able = [name for name, model in MODELS.items() if goal.task in model.tasks]
        raise ConfigError(
            f"{', '.join(wrong)} cannot learn this task ({goal.note})", where="models", fix=f"use {', '.join(able)}"
        )
    for entry in config.models:
        entry.params.require_ready(goal.task)
    if backend.name == "gpu":
        for entry in config.models:
            if refusal := early_refusal(entry.params, goal.task):
                backend.fall_back(refusal.what, f"models: {entry.label}", refusal.fix)
    return config.models


def folds_of(job: Job) -> list[Fold]:
    """Return the folds that the configuration asks for: one without ``cv``."""
    split = job.config.split
    parts = None if split.column is None else _parts(job.table, split.column.name, job.backend)
    try:
        return make_splits(split, job.table.n_rows, job.classes, job.groups, job.times, job.config.seed, parts)
    except FewRows as error:
        raise error.named(job.goal.labels) from None


def _parts(table: AnyTable, name: str, backend: Backend) -> tuple[Array, list[Any]]:
    """Return the code of each row of a column that holds a split, and the value of each code."""
    column = table.schema[name]
    if column.kind == "text":
        raise ConfigError(f"split by column: {name!r} is free text", where="split.column")
    given = backend.to_host(table.column(name))
    if column.levels is not None:
        return given, [None] * FIRST_LEVEL + list(column.levels)
    values, codes = np.unique(given, return_inverse=True)
    return codes, values.tolist()

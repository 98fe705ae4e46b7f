"""Preparation of a run before training: rows, goal, candidates and folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.config import Config, ModelEntry
from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.features.history.derivation import Derivation, derive, derived_ops, key_columns
from gpupipe.io.device.obstacles import READ_ON_HOST, is_read_on_host
from gpupipe.io.input_files import InputFiles
from gpupipe.io.raw_columns import notes_of_missing_words
from gpupipe.metrics import metric_names, unit_notes
from gpupipe.metrics.settings import Evaluate
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.reason_codes import check_reason_codes
from gpupipe.models import MODELS, ModelSettings, early_refusal
from gpupipe.models.target_training import naming_target
from gpupipe.names import count_noun
from gpupipe.splits import Fold, RareClassError, Split, check_classes, check_splits, make_splits
from gpupipe.table.blocks import EncodedTable
from gpupipe.table.schema import FIRST_LEVEL, RAW_KINDS, Schema
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import require_joint
from gpupipe.training.job import Job
from gpupipe.training.preparation.default_models import default_entries, fill_entries
from gpupipe.training.preparation.identifiers import exact_groups, has_inexact
from gpupipe.training.preparation.input_copies import copy_notes, find_inputs
from gpupipe.training.preparation.read_stage import ReadTable, read_on_workers, read_table
from gpupipe.training.preparation.row_weights import weighted_rows
from gpupipe.training.preparation.split_columns import advise_dropped, naming_dropped, require_column, split_columns
from gpupipe.training.preparation.target import TargetColumn, all_known, find_goal, known_rows, target_values
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.partitions.workers import Workers

Divided = TypeVar("Divided")

LEAST_MEAN_WEIGHT = 0.1  # a smaller mean makes penalties more than 10 times as strong as without weights


@dataclass(frozen=True)
class ReadRequest:
    """A request to read the rows of a run.

    With `workers`, the table is partitioned across them. `files` are the files of all tables, if they were listed
    already.
    """

    config: Config
    backend: Backend
    timeline: Timeline
    workers: Workers | None = None
    files: InputFiles | None = None

    @property
    def readers(self) -> Workers | None:
        """The workers that read the table; None if this process reads it."""
        return None if derived_ops(self.config.features) or self.config.has_frames else self.workers


@dataclass(frozen=True)
class UnsplitRows:
    """The rows of a run with its target columns and its goal, as `read_rows` and `derive_columns` return them."""

    found: ReadTable[Any]
    files: InputFiles
    targets: tuple[TargetColumn, ...]
    goal: Goal
    derivation: Derivation | None = None


def open_job(
    config: Config,
    backend: Backend,
    timeline: Timeline,
    workers: Workers | None = None,
    files: InputFiles | None = None,
) -> Job:
    """Read the table, derive columns and infer the goal; return the job."""
    request = ReadRequest(config, backend, timeline, workers, files)
    rows = read_rows(request)
    if derived_ops(config.features):
        rows = derive_columns(request, rows)
    return make_job(request, rows)


def read_rows(request: ReadRequest) -> UnsplitRows:
    """Read the table and infer the goal."""
    config = request.config
    backend = request.backend
    readers = request.readers
    files = request.files
    with request.timeline.stage("read", (readers or backend).place) as stage:
        if files is None:
            files = find_inputs(config)
            for text in copy_notes(files):
                stage.note(text)
        if readers is None and backend.name == "gpu" and is_read_on_host(files, config.tables):
            stage.device, stage.reason = "cpu", READ_ON_HOST
        found: ReadTable[Any] = (
            read_table(config, backend, files) if readers is None else read_on_workers(config, readers, backend, files)
        )
        stage.rows = found.table.n_rows
        for text, level in found.leveled_notes(config):
            stage.note(text, level)
        targets = _read_targets(config, backend, found, files)
        models, source = [entry.params for entry in config.models], config.source
        goal = find_goal(targets, source.positives, models, source.quantile_levels, source.task)
        stage.rows_held = found.table.rows_by_worker()
        stage.note(goal.note)
    return UnsplitRows(found, files, targets, goal)


def _read_targets(
    config: Config, backend: Backend, found: ReadTable[Any], files: InputFiles
) -> tuple[TargetColumn, ...]:
    source = config.source
    read = partial(TargetColumn.all_of, found.table, source.targets, backend, files.is_untyped)
    targets = read(found.notes)
    if files.is_untyped and not all_known(targets).all():
        targets = read([*found.notes, *notes_of_missing_words(source, source.targets, files.source)])
    return targets


def derive_columns(request: ReadRequest, rows: UnsplitRows) -> UnsplitRows:
    """Return the rows with the columns that ops derive before the split.

    Rows without a target are included, because they are part of the history of others.
    """
    config, sources = request.config, rows.found.sources
    assert sources is not None
    with request.timeline.stage("derive", request.backend.place) as stage:
        try:
            places = [f"features[{i}].{op.title()}" for i, op in enumerate(config.features) if derived_ops([op])]
            table, derivation = derive(derived_ops(config.features), sources, places)
        except GpupipeError as error:
            advise_dropped(error, config)
            raise
        stage.rows = table.n_rows
        stage.interpreter = ", ".join(sources.engines) or None
        stage.note(f"{len(derivation.made)} columns from {', '.join(['the table', *derivation.tables])}")
        for warning in sources.warnings:
            stage.note(warning, "warning")
        for key in key_columns(config.features):
            stage.note(f"{key}: an entity key, not used as a feature; `- encode: {key}` makes it one")
    return replace(rows, found=replace(rows.found, table=table, sources=None), derivation=derivation)


def make_job(request: ReadRequest, rows: UnsplitRows) -> Job:
    """Return the job, without the rows in which a target is null."""
    config = request.config
    backend = request.backend
    timeline = request.timeline
    workers = request.workers
    found = rows.found
    targets = rows.targets
    goal = rows.goal
    table: EncodedTable = found.table
    if workers is not None and request.readers is None:
        what = "derives columns" if rows.derivation is not None else "encodes tables in memory"
        timeline.note(f"the driver {what}, then partitions the table")
        from gpupipe.partitions.read import partition_table

        table = partition_table(found.table, workers)
    known, row_ids = known_rows(table, targets, backend)
    if dropped := table.n_rows - known.n_rows:
        without = "without a target" if len(targets) == 1 else "in which a target is missing"
        text = count_noun(dropped, "row", f"{without} was dropped", f"{without} were dropped")
        if reasons := [f"{own.column.name}: {'; '.join(own.reasons)}" for own in targets if own.reasons]:
            text = f"{text} ({'; '.join(reasons)}); {next(own.fix for own in targets if own.fix)}"
        timeline.note(text, "warning")
    require_column("source.weight", config.source.weight, known, config)
    n_known = known.n_rows
    known, row_ids, weights = weighted_rows(config, known, row_ids, table.n_rows, backend, rows.files)
    if skipped := n_known - known.n_rows:
        timeline.note(count_noun(skipped, "row", "with weight 0 was dropped", "with weight 0 were dropped"))
    if weights is not None and (mean := float(weights.mean())) < LEAST_MEAN_WEIGHT:
        what = f"the mean of the weights in {config.source.weight!r} is {mean:.3g}"
        timeline.note(f"{what}: regularization outweighs the rows; multiply them so that it is about 1", "warning")
    y = target_values(targets, row_ids, goal, config.source.positives)
    for text in settings_without_effect(config, goal):
        timeline.note(text, "warning")
    names = metric_names(goal.tasks, config.evaluate)
    for text in reason_code_notes(config, goal, known.schema):
        timeline.note(text, "warning")
    for text in unit_notes(names, len(targets)):
        timeline.note(text, "warning")
    with naming_dropped(found.notes):
        groups, times = split_columns(config, known, backend)
    if groups is not None and has_inexact(groups):
        groups = exact_groups(config, row_ids, rows.files)
    return Job(
        config,
        backend,
        timeline,
        known,
        y,
        goal,
        names,
        groups,
        times,
        weights,
        row_ids,
        rows.derivation,
        workers=workers,
        rules=found.rules,
        files=rows.files,
    )


def settings_without_effect(config: Config, goal: Goal) -> list[str]:
    """Return a warning about each setting that a run for `goal` ignores."""
    evaluate, split = config.evaluate, config.split
    two, some = f"it needs a target with two classes ({goal.note})", f"it needs a target with classes ({goal.note})"
    several = "it is for two classes; for more, use temperature or isotonic"
    one = f"it needs a target ({goal.note})"
    folds = f"split.cv tests each of its {split.cv} folds in turn"
    is_binary, has_classes = "binary" in goal.tasks, goal.has_classes
    checks = [
        ("evaluate.threshold", evaluate.threshold, not is_binary and evaluate.threshold != Evaluate().threshold, two),
        ("evaluate.calibrate", evaluate.calibrate, not has_classes and evaluate.calibrate != "none", some),
        ("evaluate.calibrate", "sigmoid", goal.tasks == {"multiclass"} and evaluate.calibrate == "sigmoid", several),
        ("evaluate.intervals", evaluate.intervals, not goal.names and evaluate.intervals is not None, one),
        ("split.stratify", "true", split.stratify is True and not has_classes, some),
        ("split.test_size", split.test_size, split.cv is not None and split.test_size != Split().test_size, folds),
    ]
    return [f"{path}: {value} has no effect; {why}" for path, value, is_ignored, why in checks if is_ignored]


def reason_code_notes(config: Config, goal: Goal, schema: Schema) -> list[str]:
    """Return warnings about ``evaluate.reason_codes``; raise ConfigError if they do not suit the table."""
    unread = (config.source.weight, *(column.name for column in schema if column.derived))
    columns = [column.source for column in schema if column.name not in unread]
    tables = [name for name, table in config.tables.items() if not table.is_joined]
    return check_reason_codes(config.evaluate.reason_codes, goal, columns, tables)


def choose_entries(config: Config, goal: Goal, backend: Backend) -> tuple[ModelEntry, ...]:
    """Return the candidates of the leaderboard, with the tuned values of parameters that were not stated.

    Without any in `config`, they are the default models for task and device. Raise ConfigError if a model does not
    support the task; DeviceError if the device cannot train a model and fallback is forbidden.
    """
    if not config.models:
        found = default_entries(goal, backend.name == "gpu", backend.lacks)
        for note in found.notes:
            backend.note(note)
        return found.entries
    wrong = [entry.name for entry in config.models if not can_learn(entry.params, goal)]
    if wrong:
        able = [name for name, model in MODELS.items() if can_learn(model, goal)]
        raise ConfigError(
            f"{' and '.join(wrong)} cannot learn this task ({goal.note})", where="models", fix=f"use {', '.join(able)}"
        )
    require_tuning(config)
    entries = fill_entries(config.models, goal, backend)
    for entry in entries:
        for task in goal.tasks:
            entry.params.require_ready(task)
    require_joint(entries, goal)
    if backend.name == "gpu":
        for entry in entries:
            for task in goal.tasks:
                if refusal := early_refusal(entry.params, task, backend.lacks):
                    backend.fall_back(refusal.what, f"models: {entry.label}", refusal.fix)
                    break
    return entries


def can_learn(model: ModelSettings | type[ModelSettings], goal: Goal) -> bool:
    """Return whether a model learns the target, or each of several targets."""
    return goal.tasks <= model.tasks and not (goal.targets and model.view == "combined")


def require_tuning(config: Config, workers: Workers | None = None) -> None:
    """Raise a ConfigError if an entry has ``tune`` and the run cannot search: without Optuna, or with partitions."""
    label = next((entry.label for entry in config.models if entry.tune is not None), None)
    if label is None:
        return
    where = f"models: {label}.tune"
    if config.cluster.scheduler is not None:
        raise ConfigError(
            "tune is not available on a cluster, where the training rows are in partitions",
            where=where,
            fix="remove tune, or the section cluster",
        )
    if workers is not None:
        raise ConfigError(
            "tune needs the training rows in memory; this run keeps them in files",
            where=where,
            fix="remove tune, or raise limits.memory",
        )
    if find_spec("optuna") is None:
        raise ConfigError("tune needs Optuna, which is not installed", where=where, fix="pip install 'gpupipe[tune]'")


def folds_of(job: Job) -> list[Fold]:
    """Return the folds of the configured split: one without ``cv``."""
    return _divided(job, make_splits)


def check_folds(job: Job) -> None:
    """Raise the errors of `folds_of` without computing the folds."""
    _divided(job, check_splits)


def _divided(job: Job, divide: Callable[..., Divided]) -> Divided:
    split, seed = job.config.split, job.config.seed
    parts = None if split.column is None else _parts(job.table, split.column.name, job.backend)
    for own in job.of_targets():  # a rare class may have rows in the strata of others
        with naming_target(own.goal.target), named_class(own.goal):
            check_classes(split, own.strata())
    with named_class(job.goal):
        return divide(split, job.table.n_rows, job.strata(), job.groups, job.times, seed, parts)


@contextmanager
def named_class(goal: Goal) -> Iterator[None]:
    """Name the class in errors of a split."""
    try:
        yield
    except RareClassError as error:
        raise error.named(goal.labels) from None


def _parts(table: EncodedTable, name: str, backend: Backend) -> tuple[Array, list[Any]]:
    """Return the code of each row in a column that contains the split, and the value of each code."""
    column = table.schema[name]
    if column.kind in RAW_KINDS:
        what = f"cannot split by {name!r}: it {RAW_KINDS[column.kind]}"
        raise ConfigError(what, where="split.column", names=[name])
    given = backend.to_host(table.column(name))
    if column.levels is not None:
        return given, [None] * FIRST_LEVEL + list(column.levels)
    values, codes = np.unique(given, return_inverse=True)
    return codes, values.tolist()

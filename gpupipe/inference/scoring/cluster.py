"""Batch scoring on the workers of a cluster, into a folder of Parquet files."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpupipe.artifact import ArtifactReader
from gpupipe.backends.base import Backend
from gpupipe.config.cluster import ClusterSettings
from gpupipe.errors import ConfigError
from gpupipe.files.directory import AtomicDirectory
from gpupipe.files.disk import room_on
from gpupipe.files.file import ROOM
from gpupipe.inference.explanation.outputs import reason_names, require_explainable
from gpupipe.inference.model import Model, load_model, open_model
from gpupipe.inference.prediction.id_columns import IdColumns, choose_columns, output_names, require_free_names
from gpupipe.inference.scoring.local import adjust_tables
from gpupipe.inference.scoring.outputs import ENDINGS, scoring_inputs
from gpupipe.inference.scoring.scoring_settings import DEFAULT_SETTINGS, ScoringSettings
from gpupipe.inference.scoring.summary import ScoreSummary
from gpupipe.io.column_settings import ColumnSettings
from gpupipe.io.files import mask
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.rules.check import find_violations
from gpupipe.rules.enforcement import by_column, settle_served

if TYPE_CHECKING:
    from gpupipe.partitions.source_chunks import ArrowChunks
    from gpupipe.partitions.workers import Workers

PART = "part-00000.parquet"  # the first output file


def score_on_cluster(
    model: str | Path,
    data: str,
    output: Path,
    cluster: ClusterSettings,
    settings: ScoringSettings = DEFAULT_SETTINGS,
) -> ScoreSummary:
    """Write the predictions of `data` into a folder of Parquet files, computed by the workers of a cluster.

    The folder contains only Parquet files, named in the order of the rows, with the columns that `score` writes. Bad
    rows raise an error. Models with features of keys and texts need all rows at once, so one worker scores them.

    `output` is a folder accessible to all workers under this path, created atomically. It may exist if it is empty.
    `cluster` has the workers to connect to or start. `data` and the further tables must be accessible to all workers
    under the same paths. Copied columns have the types that features are read with: decimals are float64, dates are
    timestamps. Raise ConfigError if `output` is not a new or an empty folder, or a worker cannot write to it;
    ClusterError if the workers cannot be started or reached, or are lost; GpupipeError as `score`.
    """
    started, notes = time.perf_counter(), list[str]()

    def note(text: str) -> None:
        notes.append(text)
        settings.log(text)

    _require_new(output)
    require_no_conflict(output, scoring_inputs(model, data, settings.tables), contents=[PART])
    # Report errors before workers are started.
    loaded = load_model(model, "cpu", allow_code=settings.allow_code, trust=settings.trust)
    if settings.explain:
        require_explainable(loaded.goal)
    from gpupipe.dask.connect import connect

    # The workers end before unfinished output is removed.
    with (
        room_on(output.parent, ROOM),
        AtomicDirectory(output) as directory,
        connect(cluster, settings.device) as workers,
    ):
        settings.log(f"{workers.n_workers} workers on the {workers.device}: {workers.reason}")
        summary = score_on_workers(loaded, data, directory.path, workers, replace(settings, log=note))
        for line in workers.take_warnings():
            note(line)
    return replace(summary, output=output, seconds=time.perf_counter() - started, notes=tuple(notes))


def score_on_workers(
    model: Model, data: str, folder: Path, workers: Workers, settings: ScoringSettings = DEFAULT_SETTINGS
) -> ScoreSummary:
    """Write the predictions of `data` into an empty folder, computed by `workers`; see `score_on_cluster`."""
    from gpupipe.partitions.scoring import SentModel, score_as_one, score_chunks
    from gpupipe.partitions.source_chunks import read_chunks

    started = time.perf_counter()
    known = model.manifest["reading"].get("id", ())
    log = settings.log
    data = absolute_path(data)
    as_of = settings.as_of
    explain = settings.explain
    paths = {name: absolute_path(path) for name, path in (settings.tables or {}).items()}
    tables = adjust_tables(model, paths, settings.adjust)
    source = settings.adjust(model.source_of(data))
    choose = partial(_choose, model, settings)
    open_sent = partial(_open, allow_code=settings.allow_code, explain=explain)
    if model.features.derivation is not None:
        log("features of keys and texts need all rows at once: a single worker reads and scores them")
        sent = SentModel.of(model.folder, open_sent)
        written = score_as_one(
            source, sent, folder, workers, tables, as_of, lambda names: choose(names).names, explain=explain
        )
    else:
        texts = [name for name in (*known, *(settings.ids or ())) if name not in model.inputs]
        declared = {name: ColumnSettings(kind="text") for name in texts} | source.declared
        found = read_chunks(source.model_copy(update={"declared": declared}), workers, workers.n_threads)
        for path in found.whole:
            log(f"{path} cannot be split into chunks: a single worker read it")
        if skipped := found.notes.skipped_line():
            log(skipped)
        copied = choose(found.schema.names).names
        for warning in _enforce(model, found, workers, data):
            log(warning)
        sent = SentModel.of(model.folder, partial(open_sent, is_checked=True))
        written = score_chunks(found.chunks, sent, folder, workers, tables, as_of, copied, explain=explain)
    for line in written.notes:
        log(line)
    columns = choose(written.copied)
    return ScoreSummary(
        output=folder,
        n_rows=written.n_rows,
        seconds=time.perf_counter() - started,
        ids=columns.ids,
        kept=columns.kept,
        report=written.report,
    )


def _choose(model: Model, settings: ScoringSettings, found: Sequence[str]) -> IdColumns:
    """Return the columns to copy among those `found` in the input; see `choose_columns`."""
    columns = choose_columns(settings.ids, settings.keep, model.manifest["reading"].get("id", ()), found)
    names = [*output_names(model.goal, model.decision), *reason_names(model.goal, settings.explain)]
    require_free_names(columns, names)
    return columns


def _enforce(model: Model, found: ArrowChunks, workers: Workers, data: str) -> list[str]:
    """Enforce the rules on all rows before any is scored; return the warnings."""
    from gpupipe.partitions.rules import encode_columns

    served = [each for each in model.rules if each.column in found.schema.names]
    if not served:
        return []
    declared = {each.column: each.recorded for each in served}
    table = encode_columns(found, list(declared), workers, declared)
    return settle_served(find_violations(table, by_column(served), model.backend.host), mask(data))


def _open(folder: Path, backend: Backend, *, allow_code: bool, explain: int = 0, is_checked: bool = False) -> Model:
    """Return a model that scores chunks; without rules if all rows were checked before."""
    model = replace(open_model(ArtifactReader(folder), backend, allow_code), warns=False)
    model = replace(model, rules=()) if is_checked else model
    if explain:
        model.explainer  # noqa: B018  it reads files, which are removed once the model is open
    return model


def absolute_path(path: str) -> str:
    """Return a path that does not depend on the current folder of a worker."""
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def _require_new(output: Path) -> None:
    """Raise ConfigError unless `output` can become a folder of predictions."""
    if not output.absolute().parent.is_dir():
        what = f"no such folder: {output.parent}"
        raise ConfigError(what, where=str(output), fix="create it, or name another output")
    if output.suffix in ENDINGS:
        raise ConfigError(
            "expected a folder: a cluster writes several Parquet files",
            where=str(output),
            fix=f"name a folder, such as {output.with_suffix('')}, or remove --cluster",
        )
    AtomicDirectory(output).require_place()

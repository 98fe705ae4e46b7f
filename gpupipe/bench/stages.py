"""Stages of a run in the form of a peer script: one model, one fold, no report; and extra stages."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpupipe.backends import choose
from gpupipe.backends.machine import peak_bytes
from gpupipe.bench.clock import StageClock
from gpupipe.bench.models import describe
from gpupipe.bench.sample import stage_document
from gpupipe.config import Config, ModelEntry
from gpupipe.errors import DeviceError
from gpupipe.features.program.fitted import write_matrix
from gpupipe.io.cache import TableCache
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Truth
from gpupipe.models import Prediction
from gpupipe.models.training import load_library
from gpupipe.pipeline.records.export import export_model
from gpupipe.table.blocks import EncodedTable, Table
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import TrainedModel, TrainingSet, learn_features, train, training_matrix
from gpupipe.training.job import Job
from gpupipe.training.preparation.preparation import choose_entries, folds_of, open_job
from gpupipe.training.preparation.read_stage import read_table
from gpupipe.typing import Array
from gpupipe.units import MIB


@dataclass(frozen=True)
class SplitTable:
    """A table after reading and splitting; `rows` are the training rows, and `truth` is that of the test rows."""

    job: Job
    rows: TrainingSet
    test: EncodedTable
    truth: Truth | None


def run_stages(
    config: Config, model: ModelEntry | None, clock: StageClock, features_only: bool = False
) -> dict[str, Any]:
    """Run the stages once and return the document of the run.

    Without `model`, the first default model of the task is trained. `clock` may already include the imports. With
    `features_only`, stop after the feature matrices, in the view of the model.
    """
    split = read_and_split(config, clock)
    job, rows = split.job, split.rows
    entry = model_of(job, model)
    view = entry.params.view
    with clock("features_fit"):
        features = learn_features(rows, view, config.features)
    with clock("features_transform_train"):
        training_matrix(rows, view, job.backend)
        rows.release()
    with clock("features_transform_test"):
        X = write_matrix(split.test, features, job.backend)
    quality = {} if features_only else train_and_score(split, entry, X, clock)
    return {
        **stage_document(clock.wall, clock.cpu),
        "model": None if features_only else describe(entry),
        "rows": job.table.n_rows,
        "features": len(features.names),
        "interpreter": job.backend.last_interpreter,
        "device": job.backend.name,
        "task": job.goal.task,
        "metric": measured_metrics(job)[0],
        **quality,
        "peak_rss_mib": peak_bytes() // MIB,
    }


def read_and_split(config: Config, clock: StageClock) -> SplitTable:
    """Return the table with the rows of its first split."""
    backend = choose(config.device, config.device_options)
    with clock("read"):
        job = open_job(config, backend, Timeline())
    with clock("split"):
        fold = folds_of(job)[0]
        rows = job.rows(fold.train)
        test = job.table.take(fold.test, backend)
        truth = job.truth(fold.test)
    return SplitTable(job, rows, test, truth)


def model_of(job: Job, model: ModelEntry | None) -> ModelEntry:
    """Return the model to train.

    Raise ConfigError if the model cannot learn the task.
    """
    models = () if model is None else (model,)
    return choose_entries(job.config.model_copy(update={"models": models}), job.goal, job.backend)[0]


def import_estimator(job: Job, entry: ModelEntry) -> None:
    """Import the library that trains a model."""
    with suppress(DeviceError):  # no such model on the device: training falls back to the host, or fails
        load_library(entry.params, job.goal.each[0].task, job.backend)


def train_and_score(split: SplitTable, entry: ModelEntry, X: Array, clock: StageClock) -> dict[str, float]:
    """Train on the training rows, predict the test rows and write the model directory; return the metrics."""
    job = split.job
    with clock("imports"):  # not earlier: the library depends on the task
        import_estimator(job, entry)
    with clock("train"):
        trained = train(entry, split.rows, job.goal, job.config, job.backend)
        split.rows.matrices.clear()  # as a run does
    with clock("evaluate"):
        quality = score_rows(job, split.truth, trained.model.predict(X), X)
    with clock("save"):
        save(job, trained, quality)
    return quality


def score_rows(job: Job, truth: Truth | None, prediction: Prediction, X: Array) -> dict[str, float]:
    """Return the metrics of the test rows, without weights."""
    return replace(job, metrics=measured_metrics(job)).score(
        None if truth is None else replace(truth, weights=None), prediction, _plain_decision(job), X
    )


def measured_metrics(job: Job) -> tuple[str, ...]:
    """Return the metrics of the configuration; for two classes roc_auc comes first, since peers report it."""
    return tuple(dict.fromkeys(["roc_auc", *job.metrics])) if job.goal.task == "binary" else job.metrics


def save(job: Job, trained: TrainedModel, quality: dict[str, float]) -> None:
    """Write the portable model as a run does, and delete it."""
    with TemporaryDirectory() as folder:
        export_model(Path(folder) / "model", trained, job, _plain_decision(job), quality)


def _plain_decision(job: Job) -> Decision:
    """Return the decision with a threshold of 0.5, for each target."""
    return Decision(targets=tuple(Decision() for _ in job.goal.targets))


def run_extras(config: Config, model: ModelEntry | None) -> dict[str, Any]:
    """Time reads without and with the encoded cache, and a transform of all rows; return the document.

    A cached table is memory-mapped, so its pages are read when they are touched. Each read is therefore followed by one
    pass over all blocks, and the sums of both are comparable.
    """
    clock = StageClock()
    notes = _time_reads(config, clock)
    split = read_and_split(config, StageClock())
    job = split.job
    features = learn_features(split.rows, model_of(job, model).params.view, config.features)
    with clock("serve_transform_all"):
        write_matrix(job.table, features, job.backend)
    return {"stages_s": clock.wall, "stages_cpu_s": clock.cpu, "rows": job.table.n_rows, "notes": notes}


def _time_reads(config: Config, clock: StageClock) -> list[str]:
    backend = choose(config.device)
    with clock("read"):
        table = read_table(config, backend).table
    with clock("read_pass"):
        _touch(table)
    del table
    with TemporaryDirectory() as folder:
        cached = _with_cache(config, folder)
        with clock("cache_store"):
            notes = read_table(cached, backend).notes
        cache = TableCache.of(cached.source, cached.tables)
        if cache is None or not cache.path.is_dir():
            return [f"the encoded cache could not be measured: {'; '.join(notes)}"]
        with clock("cache_load"):
            table = read_table(cached, backend).table
        with clock("cache_pass"):
            _touch(table)
        del table
    return []


def _with_cache(config: Config, folder: str) -> Config:
    source = config.source.model_copy(update={"cache": str(Path(folder).resolve())})
    return config.model_copy(update={"source": source})


def _touch(table: Table) -> None:
    """Read every value of every block once."""
    import numpy as np

    with np.errstate(all="ignore"):
        for block in table.blocks.values():
            block.sum()

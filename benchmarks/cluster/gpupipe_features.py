"""The features in gpupipe, computed in one process or on workers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.cluster.workload import CONFIG, Summary, document, summary
from gpupipe.backends import choose
from gpupipe.backends.base import Backend
from gpupipe.bench.clock import StageClock
from gpupipe.config import Config, load_config
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.connect import connect
from gpupipe.features.program.fitted import write_matrix
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.workers import Workers
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import learn_features, training_matrix
from gpupipe.training.preparation.preparation import folds_of, open_job
from gpupipe.typing import Array


def alone(file: Path, clock: StageClock, n_workers: int, memory: str | None) -> dict[str, Any]:
    """Compute the features in one process, on all threads."""
    return _features(_config(file), clock, None)


def shared(file: Path, clock: StageClock, n_workers: int, memory: str | None) -> dict[str, Any]:
    """Compute the features on workers with one thread each, and report the peak memory of each."""
    given = {"scheduler": "local", "workers": n_workers, "threads": 1}
    settings = ClusterSettings.model_validate(given | ({"memory_limit": memory} if memory else {}))
    with ExitStack() as stack:
        with clock("start"):
            workers = stack.enter_context(connect(settings, "cpu"))
        found = _features(_config(file), clock, workers)
        return {**found, "workers": [asdict(use) for use in workers.usage()], "lost": workers.n_lost}


def _config(file: Path) -> Config:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "features.yaml"
        path.write_text(CONFIG.format(data=file), encoding="utf8")
        return load_config(path)


def _features(config: Config, clock: StageClock, workers: Workers | None) -> dict[str, Any]:
    backend = choose("cpu")
    with clock("read"):
        job = open_job(config, backend, Timeline(), workers)
    with clock("split"):
        fold = folds_of(job)[0]
        rows = job.rows(fold.train)
        test = job.table.take(fold.test, backend)
    with clock("fit"):
        features = learn_features(rows, "dense", config.features)
    with clock("transform"):
        X = training_matrix(rows, "dense", backend)
        rows.release()
        X_test = write_matrix(test, features, backend)
    return {**document(_summaries(X)), "names": features.names, "test_rows": X_test.shape[0]}


def _summaries(matrix: Array | PartitionedMatrix) -> list[Summary]:
    if not isinstance(matrix, PartitionedMatrix):
        return [summary(matrix, 0)]
    starts = matrix.bounds[:-1]
    return matrix.compute(_summary, each=[starts])


def _summary(backend: Backend, array: Array, first_row: int) -> Summary:
    return summary(array, first_row)

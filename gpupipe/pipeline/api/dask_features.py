"""Feature matrices of Dask DataFrames as Dask arrays, whose chunks stay on the workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.backends import choose
from gpupipe.config import Config
from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.arrays import empty_array, to_dask_array
from gpupipe.dask.connect import connect, current_client
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.workers import ResultHandle
from gpupipe.pipeline.api.arguments import WarningListener
from gpupipe.pipeline.run import workers_of
from gpupipe.tasks import View
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.fit import fit_view
from gpupipe.training.preparation.preparation import open_job
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.dask.workers import DaskWorkers


def features_on_workers(config: Config, view: View, listener: WarningListener) -> tuple[Any, Any]:
    """Fit the features on the workers of the caller's client; `listener` issues the warnings.

    Returns
    -------
    X : dask.array.Array of float32, shape (n_rows, n_features)
    y : dask.array.Array of float64, shape (n_rows,) or (n_rows, n_targets), or None
        With the chunks of `X`.
    """
    backend = choose("cpu", config.device_options)
    with workers_of(config) as workers:
        job = open_job(config, backend, Timeline([listener]), workers)
        rows = job.rows(np.ones(job.table.n_rows, bool))
        fitted, X = fit_view(rows, view, config.features, backend)
        for text in fitted.warnings:
            listener.warn(text)
        assert rows.statistics is not None
        target = rows.statistics.target  # its values are on the workers, in the partitions of X
        if target is None:
            return matrix_array(X), None
        columns = [_column_array(own.values, X).astype("float64") for own in target.each]
        import dask.array

        y = dask.array.stack(columns, axis=1) if job.goal.targets else columns[0]
        return matrix_array(X), y


@contextmanager
def current_workers(device: str) -> Iterator[DaskWorkers]:
    """Yield the workers of Dask's current client, which stays open."""
    with connect(ClusterSettings().with_client(current_client()), device) as workers:
        yield workers


def gathered(values: Any) -> Any:
    """Return a column as it is, or that of a Dask collection, computed into this process."""
    import dask

    return current_client().compute(values, sync=True) if dask.is_dask_collection(values) else values


def matrix_array(X: PartitionedMatrix) -> Any:
    """Return a matrix on workers as a Dask array; nothing is moved."""
    X = X.drop_empty()
    return to_dask_array(X.partitions, X.heights, (X.n_columns,), empty_array(X.workers.device, 2, "float32"))


def _column_array(values: Sequence[ResultHandle[Array]], X: PartitionedMatrix) -> Any:
    (dtype,) = X.workers.gather([X.workers.submit(lambda _, values: values.dtype.str, values[0])])
    return to_dask_array(values, X.heights, (), empty_array(X.workers.device, 1, dtype))

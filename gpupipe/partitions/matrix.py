"""Matrices in partitions on workers: written, gathered and predicted; see `gpupipe.partitions.table`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import map_row_ranges
from gpupipe.features.program.fitted import FittedFeatures, write_matrix
from gpupipe.models import FittedModel, Prediction
from gpupipe.models.device.fitted import matrix_on_host
from gpupipe.models.fitted.prediction import join_predictions
from gpupipe.models.matrix import gather_rows, predict_matrix, rows_by_worker
from gpupipe.partitions.collection import PartitionedRows
from gpupipe.partitions.table import PartitionedTable
from gpupipe.typing import Array


@dataclass(frozen=True)
class PartitionedMatrix(PartitionedRows[Array]):
    """A matrix of float32, column-major in each partition."""

    n_columns: int

    @property
    def nbytes(self) -> int:
        """Bytes of all partitions."""
        return 4 * self.n_rows * self.n_columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of all partitions, and columns."""
        return self.n_rows, self.n_columns

    def materialize(self) -> PartitionedMatrix:
        """Wait until all partitions are written, and return the matrix; errors of workers are raised here."""
        self.workers.wait(self.partitions)
        return self

    def drop_empty(self) -> PartitionedMatrix:
        """Return the matrix without the partitions that have no rows."""
        kept = [(partition, height) for partition, height in zip(self.partitions, self.heights, strict=True) if height]
        partitions, heights = zip(*kept, strict=True) if kept else ((), ())
        return replace(self, partitions=partitions, heights=heights)

    def rows(self, positions: Array) -> Array:
        """Return the rows at some positions (int, ascending), gathered on the host."""
        own = self.split_positions(positions)
        found = self.compute(
            lambda backend, array, at: backend.to_host(array[backend.to_device(at)]), each=[own], label="single rows"
        )
        return np.concatenate(found)

    def gather(self) -> Array:
        """Return the matrix as one array on the host, column-major; partition after partition is fetched."""
        out = np.empty(self.shape, np.float32, order="F")
        for part, rows in zip(self.partitions, self.split_rows(out), strict=True):
            (rows[:],) = self.workers.gather([self.workers.submit(lambda backend, array: backend.to_host(array), part)])
        return out


@write_matrix.register(PartitionedTable)
def _(
    table: PartitionedTable, features: FittedFeatures, backend: Backend, is_training: bool = False
) -> PartitionedMatrix:
    """Return the matrix of `table` on the workers of its rows, once all have written it.

    `features` were fitted on `PartitionedStatistics`: their folds are handles, one per partition. `backend` is not
    used: each worker computes with its own. With `is_training`, `table` holds the training rows of the statistics.
    Raise SchemaError if the table lacks a column, or has one of another kind, and LimitError if a partition of the
    matrix does not fit into its worker's memory.
    """
    training = features.training_program if is_training else None
    folds: Any = features.folds if training else [None] * len(table.partitions)  # handles, one for each partition
    program = training or features.program
    lean = replace(features, training_program=training, folds=None, states=(), derivation=None)  # the others are large
    written = table.map(
        lambda backend, rows, features, folds: replace(features, folds=folds).transform_training(rows, backend),
        table.workers.put(lean),
        each=[folds],
        label="features",
    )
    return PartitionedMatrix(written.partitions, table.workers, table.heights, program.n_columns).materialize()


@predict_matrix.register(PartitionedMatrix)
def _(X: PartitionedMatrix, model: FittedModel, backend: Backend) -> Prediction:
    """Return the predictions of all rows, in order; the model is sent to the workers in its portable form."""
    X = X.drop_empty()
    if not X.partitions:
        return model.predict(np.empty(X.shape, np.float32))
    sent = X.workers.put(model.portable())
    return join_predictions(X.compute(_predict, sent, label="predictions"))


def _predict(backend: Backend, rows: Array, model: FittedModel) -> Prediction:
    on_host = matrix_on_host(rows, backend)
    n_rows = on_host.shape[0]
    return join_predictions(
        map_row_ranges(lambda start, stop: model.predict(on_host[start:stop]), n_rows, backend, "predict")
    )


@gather_rows.register(PartitionedMatrix)
def _(X: PartitionedMatrix, rows: Array | None, backend: Backend) -> Array:
    return X.gather() if rows is None else X.rows(rows)


@rows_by_worker.register(PartitionedMatrix)
def _(X: PartitionedMatrix) -> dict[str, int]:
    return X.rows_by_worker()

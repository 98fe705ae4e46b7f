"""Steps of a run on tables in memory or in partitions, dispatched on the type of the data."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.out_of_memory import map_row_ranges
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.training import Statistics
from gpupipe.models import FitContext, FittedModel, ModelSettings, Prediction, fit
from gpupipe.models.fitted.device import join_predictions
from gpupipe.partitions.features import transform, transform_training
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.prediction import predict_partitions
from gpupipe.partitions.rules import check_partitions
from gpupipe.partitions.statistics.training import PartitionedStatistics
from gpupipe.partitions.table import PartitionedTable
from gpupipe.rules import RuleViolation
from gpupipe.rules.check import Rules, find_violations
from gpupipe.table.arrange import select, take
from gpupipe.table.blocks import Table
from gpupipe.table.schema import Schema
from gpupipe.typing import Array

AnyTable: TypeAlias = Table | PartitionedTable
AnyMatrix: TypeAlias = Array | PartitionedMatrix


def whole_table(table: AnyTable) -> Table:
    """Return the table of a run without workers."""
    assert isinstance(table, Table)
    return table


def whole_matrix(X: AnyMatrix) -> Array:
    """Return the matrix of a run without workers."""
    assert not isinstance(X, PartitionedMatrix)
    return X


def take_rows(table: AnyTable, mask: Array, backend: Backend) -> AnyTable:
    """Return the rows where `mask` (bool, shape (n_rows,), on the host) is true, in their order."""
    return table.take(mask) if isinstance(table, PartitionedTable) else take(table, mask, backend)


def keep_columns(table: AnyTable, schema: Schema) -> AnyTable:
    """Return the table with only the columns of `schema`, which are its own."""
    return table.select(schema) if isinstance(table, PartitionedTable) else select(table, schema)


def values_at(table: AnyTable, name: str, rows: Array, backend: Backend) -> Array:
    """Return the encoded values of a column in some rows (int64, shape (m,)), on the host."""
    if isinstance(table, PartitionedTable):
        return table.rows(rows, [name])[name]
    return backend.to_host(table.column(name)[backend.to_device(rows)])


def find_broken_rules(table: AnyTable, rules: Rules, backend: Backend) -> list[RuleViolation]:
    """Return the rules that a table breaks."""
    if isinstance(table, PartitionedTable):
        return check_partitions(table, rules, backend)
    return find_violations(table, rules, backend)


def rows_by_worker(data: AnyTable | AnyMatrix) -> dict[str, int]:
    """Return how many rows of a table or a matrix each worker of a cluster holds, by its address."""
    return data.rows_by_worker() if isinstance(data, PartitionedTable | PartitionedMatrix) else {}


def statistics_of(table: AnyTable, backend: Backend, target: Target | None, seed: int) -> Statistics:
    """Return what is learned of training rows."""
    if isinstance(table, PartitionedTable):
        return PartitionedStatistics(table, backend, target, seed)
    return Statistics(table, backend, target, seed)


def write_matrix(features: FittedFeatures, table: AnyTable, backend: Backend) -> AnyMatrix:
    """Return the matrix of rows outside of the training."""
    if isinstance(table, PartitionedTable):
        return transform(features, table, backend).materialize()
    return features.transform(table, backend)


def write_training_matrix(features: FittedFeatures, table: AnyTable, backend: Backend) -> AnyMatrix:
    """Return the matrix of the very rows that were fitted: those of the statistics."""
    if isinstance(table, PartitionedTable):
        return transform_training(features, table, backend).materialize()
    return features.transform_training(table, backend)


def fit_model(model: ModelSettings, X: AnyMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train a model where its matrix is."""
    if isinstance(X, PartitionedMatrix):
        from gpupipe.pipeline.partition_training import fit_partitions

        return fit_partitions(model, X, y, context)
    return fit(model, X, y, context)


def predict_rows(model: FittedModel, X: AnyMatrix, backend: Backend) -> Prediction:
    """Return what a model says of the rows of a matrix, where they are; of some at a time where memory is short."""
    if isinstance(X, PartitionedMatrix):
        return predict_partitions(model, X)
    parts = map_row_ranges(lambda start, stop: model.predict(X[start:stop]), X.shape[0], backend, "predict")
    return join_predictions(parts, backend.xp)


def matrix_rows(X: AnyMatrix, rows: Array | None, backend: Backend) -> Array:
    """Return some rows of a matrix (int64, ascending), or all of them, on the host."""
    if isinstance(X, PartitionedMatrix):
        return X.gather() if rows is None else X.rows(rows)
    return backend.to_host(X) if rows is None else backend.to_host(X[backend.to_device(np.asarray(rows))])


def rows_as_drawn(X: AnyMatrix, rows: Array | None, backend: Backend) -> Array:
    """Return some rows of a matrix (int64, in any order, and that is kept), or all of them, on the host."""
    if rows is None:
        return matrix_rows(X, None, backend)
    order = np.argsort(rows)
    ascending = matrix_rows(X, rows[order], backend)
    found: Array = np.empty_like(ascending)
    found[order] = ascending
    return found

"""Feature matrices of partitioned tables, with the bytes that one machine would write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.features.program.fitted import FittedFeatures, write_matrix
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.table import PartitionedTable


@write_matrix.register(PartitionedTable)
def _(
    table: PartitionedTable, features: FittedFeatures, backend: Backend, is_training: bool = False
) -> PartitionedMatrix:
    """Return the matrix of `table` where its rows are, once all workers have written it.

    Parameters
    ----------
    table : PartitionedTable
    features : FittedFeatures
        Of a `PartitionedStatistics`: its folds are handles, one for each partition.
    backend : Backend
        Not used: each worker computes with its own.
    is_training : bool
        True if `table` is that of the statistics.

    Raises
    ------
    SchemaError
        If the table lacks a column, or has one of another kind.
    LimitError
        If a partition of the matrix does not fit into its worker's memory.
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

"""Feature matrices of partitioned tables, with the bytes that one machine would write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.features.program.fitted import FittedFeatures, write_matrix, write_training_matrix
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.table import PartitionedTable
from gpupipe_kernels.program.program import Program


@write_matrix.register(PartitionedTable)
def transform(table: PartitionedTable, features: FittedFeatures, backend: Backend) -> PartitionedMatrix:
    """Return the matrix of `table` where its rows are (see `FittedFeatures.transform`), once all workers wrote it.

    Parameters
    ----------
    table : PartitionedTable
    features : FittedFeatures
    backend : Backend
        Of the driver, whose host says which interpreter runs everywhere: the bytes do not depend on how many
        rows a partition has.

    Raises
    ------
    SchemaError
        If the table lacks a column, or has one of another kind.
    LimitError
        If a partition of the matrix does not fit into its worker's memory.
    """
    return _run(replace(features, training_program=None), features.program, table, backend)


@write_training_matrix.register(PartitionedTable)
def transform_training(table: PartitionedTable, features: FittedFeatures, backend: Backend) -> PartitionedMatrix:
    """Return the matrix of the very rows that were fitted, which cross-fitted statistics do not see.

    Parameters
    ----------
    table : PartitionedTable
        That of the statistics.
    features : FittedFeatures
        Of a `PartitionedStatistics`: its folds are handles, one for each partition.
    backend : Backend
        As in `transform`.
    """
    if features.training_program is None:
        return transform(table, features, backend)
    return _run(features, features.training_program, table, backend)


def _run(features: FittedFeatures, program: Program, table: PartitionedTable, backend: Backend) -> PartitionedMatrix:
    engine = backend.host.interpreter(program)
    folds: Any = features.folds  # handles, one for each partition
    if not features.training_program:
        folds = [None] * len(table.partitions)
    lean = replace(features, folds=None, states=(), derivation=None)  # what no matrix needs may be large
    sent = table.workers.put(lean)
    written = table.map(
        lambda backend, rows, features, folds: replace(features, folds=folds).transform_training(rows, backend, engine),
        sent,
        each=[folds],
        label="features",
    )
    matrix = PartitionedMatrix(written.partitions, table.workers, table.heights, program.n_columns)
    return matrix.materialize()

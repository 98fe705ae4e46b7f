"""The rows of a matrix in partitions as shards for the training of a network; they go from worker to worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.dask.row_ranges import divide_rows
from gpupipe.models.neural.bin_edges import MOST_ROWS
from gpupipe.models.neural.shard_training import ShardRows, TrainingShard, matrix_tensor
from gpupipe.models.neural.training_problem import TrainingProblem
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.workers import ResultHandle
from gpupipe.typing import Array


@dataclass(frozen=True)
class WorkerShard:
    """The rows of one worker.

    Attributes
    ----------
    training, validation : ShardRows
        Rows to train on, and rows held out.
    sample : array of float32, shape (m, d)
        On rank 0, a sample of the training rows of all workers.
    """

    training: ShardRows
    validation: ShardRows
    sample: Array

    def to_tensors(self, n_numbers: int) -> TrainingShard:
        """Return the rows as tensors where they are; `n_numbers` columns are numbers."""
        batches = (rows.to_batch(n_numbers)[0] for rows in (self.training, self.validation))
        training, validation = (replace(batch, features=batch.features.contiguous()) for batch in batches)
        sample = matrix_tensor(self.sample)[0][:, :n_numbers] if len(self.sample) else None
        return TrainingShard(training, validation, sample)


@dataclass(frozen=True)
class _ShardInput:
    """Rows of one rank: handles of their matrices, and their positions among all rows."""

    matrices: list[ResultHandle[Array]]
    rows: Array


def shard_arguments(X: PartitionedMatrix, problem: TrainingProblem, n: int) -> list[list[Any]]:
    """Return for each of `n` workers the arguments of `shard`; shards differ by at most one row."""
    training, validation = (_divided(X, rows, n) for rows in (problem.training, problem.validation))
    every = max(1, len(problem.training) // MOST_ROWS)  # as `bin_edges` takes them of the whole
    (sample,) = _divided(X, problem.training[::every], 1)
    nothing = _ShardInput([], problem.training[:0])
    return [
        _arguments(X, problem, [training[rank], validation[rank], nothing if rank else sample]) for rank in range(n)
    ]


def shard(
    backend: Backend,
    n_columns: int,
    targets: Sequence[tuple[Array, Array | None]],
    counts: Sequence[int],
    *matrices: Array,
) -> WorkerShard:
    """Return one worker's shard: rows to train on, rows held out, and the sample.

    Parameters
    ----------
    backend : Backend
    n_columns : int
    targets : two tuples (target, weight)
        Of the rows to train on, and of those held out.
    counts : three ints
        How many of the matrices belong to each.
    *matrices : arrays of float32, shape (rows, n_columns)
    """
    left = iter(matrices)
    training, validation, sample = (_joined(backend, n_columns, [next(left) for _ in range(n)]) for n in counts)
    return WorkerShard(ShardRows(training, *targets[0]), ShardRows(validation, *targets[1]), sample)


def height_of(backend: Backend, made: WorkerShard) -> int:
    """Return the number of rows to train on."""
    return int(made.training.matrix.shape[0])


def _divided(X: PartitionedMatrix, rows: Array, n: int) -> list[_ShardInput]:
    """Return each worker's part of some rows, which ascend."""
    cuts = np.searchsorted(rows, X.bounds)
    found = []
    for ranges in divide_rows(np.diff(cuts).tolist(), n):
        own = [rows[cuts[partition] + start : cuts[partition] + stop] for partition, start, stop in ranges]
        matrices = X.workers.map(
            lambda backend, matrix, positions: matrix[backend.to_device(positions)],
            (
                (X.partitions[row_range.partition], (numbers - X.bounds[row_range.partition]).astype(np.int32))
                for row_range, numbers in zip(ranges, own, strict=True)
            ),
            [
                f"rows for a network of partition {row_range.partition + 1} of {len(X.partitions)}"
                for row_range in ranges
            ],
        )
        found.append(_ShardInput(matrices, np.concatenate([rows[:0], *own])))
    return found


def _arguments(X: PartitionedMatrix, problem: TrainingProblem, shards: Sequence[_ShardInput]) -> list[Any]:
    weight = problem.weight
    targets = [(problem.target[s.rows], None if weight is None else weight[s.rows]) for s in shards[:2]]
    counts = [len(shard_rows.matrices) for shard_rows in shards]
    return [X.n_columns, targets, counts, *(matrix for shard_rows in shards for matrix in shard_rows.matrices)]


def _joined(backend: Backend, n_columns: int, matrices: list[Array]) -> Array:
    return backend.xp.concatenate([backend.xp.empty((0, n_columns), dtype="float32"), *matrices])

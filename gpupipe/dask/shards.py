"""Shards of a partitioned matrix for training a network; rows are sent from worker to worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.models.neural.embeddings import MOST_ROWS
from gpupipe.models.neural.shard_training import ShardRows, TrainingShard, matrix_tensor
from gpupipe.models.neural.training_problem import TrainingProblem
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.workers import ResultHandle
from gpupipe.typing import Array


@dataclass(frozen=True)
class WorkerShard:
    """The rows of one worker.

    On rank 0, `sample` is a sample of the training rows of all workers, float32, shape (m, d).
    """

    training: ShardRows
    validation: ShardRows
    sample: Array

    def to_tensors(self, n_numbers: int) -> TrainingShard:
        """Return the rows as tensors without a copy; the first `n_numbers` columns are numbers."""
        batches = (rows.to_batch(n_numbers)[0] for rows in (self.training, self.validation))
        training, validation = (replace(batch, features=batch.features.contiguous()) for batch in batches)
        sample = matrix_tensor(self.sample)[0][:, :n_numbers] if len(self.sample) else None
        return TrainingShard(training, validation, sample)


def shard_arguments(X: PartitionedMatrix, problem: TrainingProblem, n: int) -> list[list[Any]]:
    """Return for each of `n` workers the arguments of `shard`; shards differ by at most one row."""
    every = max(1, len(problem.training) // MOST_ROWS)  # the rows that `bin_edges` samples on one machine
    samples = [problem.training[::every], *[problem.training[:0]] * (n - 1)]
    divided = (np.split(rows, shard_bounds(len(rows), n)[1:-1]) for rows in (problem.training, problem.validation))
    return [_arguments(X, problem, own) for own in zip(*divided, samples, strict=True)]


def shard_bounds(n_rows: int, n: int) -> list[int]:
    """Return the first row of each of `n` shards of consecutive rows, then the number of rows."""
    return [n_rows * i // n for i in range(n + 1)]


def shard(
    backend: Backend,
    n_columns: int,
    targets: Sequence[tuple[Array, Array | None]],
    counts: Sequence[int],
    *matrices: Array,
) -> WorkerShard:
    """Return one worker's shard: rows to train on, rows held out, and the sample.

    `targets` has target and weight of the rows to train on, and of those held out. `counts` are the numbers of matrices
    of each of the three. Matrices are float32, shape (rows, n_columns).
    """
    left = iter(matrices)
    training, validation, sample = (_joined(backend, n_columns, [next(left) for _ in range(n)]) for n in counts)
    return WorkerShard(ShardRows(training, *targets[0]), ShardRows(validation, *targets[1]), sample)


def _arguments(X: PartitionedMatrix, problem: TrainingProblem, own: Sequence[Array]) -> list[Any]:
    """Return the arguments of one worker: `own` are the rows to train on, those held out, and those of the sample."""
    given = problem.given
    training = (X, problem.target, problem.weight)
    held_out = training if given is None else (given.X.drop_empty(), given.y, given.weights)
    targets = [
        (target[rows], None if weight is None else weight[rows])
        for rows, (_, target, weight) in zip(own[:2], (training, held_out), strict=True)
    ]
    matrices = [_matrices(of, rows) for rows, of in zip(own, (X, held_out[0], X), strict=True)]
    return [X.n_columns, targets, [len(each) for each in matrices], *chain.from_iterable(matrices)]


def _matrices(X: PartitionedMatrix, rows: Array) -> Sequence[ResultHandle[Array]]:
    """Return the given ascending rows of each partition that has any."""
    inside = zip(X.partitions, X.split_positions(rows), strict=True)
    given = [(partition, own.astype(np.int32)) for partition, own in inside if len(own)]
    labels = ["rows for a network"] * len(given)
    return X.workers.map(lambda backend, matrix, own: matrix[backend.to_device(own)], given, labels)


def _joined(backend: Backend, n_columns: int, matrices: list[Array]) -> Array:
    return backend.xp.concatenate([backend.xp.empty((0, n_columns), dtype="float32"), *matrices])

"""The rows of a matrix in partitions as shards for the training of a network; they go from worker to worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.dask.equal_shares import equal_shares
from gpupipe.models.neural.bin_edges import MOST_ROWS
from gpupipe.models.neural.shard_training import Shard, ShardRows
from gpupipe.models.neural.training_problem import Lesson
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.workers import Handle
from gpupipe.typing import Array


@dataclass(frozen=True)
class _Share:
    """Rows of one worker: matrices of them, and their numbers in the whole."""

    matrices: list[Handle[Array]]
    rows: Array


def shard_arguments(X: PartitionedMatrix, lesson: Lesson, n: int) -> list[list[Any]]:
    """Return for each of `n` workers what `shard` makes its own of; shares are equal, to one row."""
    training, validation = (_divided(X, rows, n) for rows in (lesson.training, lesson.validation))
    every = max(1, len(lesson.training) // MOST_ROWS)  # as `bin_edges` takes them of the whole
    (sample,) = _divided(X, lesson.training[::every], 1)
    nothing = _Share([], lesson.training[:0])
    return [_arguments(X, lesson, [training[rank], validation[rank], nothing if rank else sample]) for rank in range(n)]


def shard(
    backend: Backend,
    n_columns: int,
    targets: Sequence[tuple[Array, Array | None]],
    counts: Sequence[int],
    *matrices: Array,
) -> Shard:
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
    return Shard(ShardRows(training, *targets[0]), ShardRows(validation, *targets[1]), sample)


def height_of(backend: Backend, made: Shard) -> int:
    """Return the number of rows to train on."""
    return int(made.training.matrix.shape[0])


def _divided(X: PartitionedMatrix, rows: Array, n: int) -> list[_Share]:
    """Return each worker's share of some rows, which ascend."""
    cuts = np.searchsorted(rows, X.bounds)
    found = []
    for pieces in equal_shares(np.diff(cuts).tolist(), n):
        own = [rows[cuts[part] + start : cuts[part] + stop] for part, start, stop in pieces]
        matrices = [
            X.workers.submit(
                _chosen, X.parts[piece.part], (numbers - X.bounds[piece.part]).astype(np.int32),
                label=f"rows for a network of partition {piece.part + 1} of {len(X.parts)}",
            )
            for piece, numbers in zip(pieces, own, strict=True)
        ]  # fmt: skip
        found.append(_Share(matrices, np.concatenate([rows[:0], *own])))
    return found


def _arguments(X: PartitionedMatrix, lesson: Lesson, shares: Sequence[_Share]) -> list[Any]:
    weight = lesson.weight
    targets = [(lesson.target[s.rows], None if weight is None else weight[s.rows]) for s in shares[:2]]
    counts = [len(share.matrices) for share in shares]
    return [X.n_columns, targets, counts, *(matrix for share in shares for matrix in share.matrices)]


def _chosen(backend: Backend, rows: Array, positions: Array) -> Array:
    taken: Array = rows[backend.to_device(positions)]
    return taken


def _joined(backend: Backend, n_columns: int, matrices: list[Array]) -> Array:
    return backend.xp.concatenate([backend.xp.empty((0, n_columns), dtype="float32"), *matrices])

"""Distributed data-parallel training of networks, each worker with a shard of the rows.

Rows are sent from worker to worker, never through the driver, which has the target and draws the same validation rows
as on one machine. Bin edges, the scale of the target and the embedding of unseen ids are those of one machine too. A
batch has the same number of rows from each worker, drawn from its shard, so losses differ with the number of workers,
as between two seeds. They do not depend on the partitions or their placement: rank 0 has the first rows. With one
shard, nothing differs from one machine.

Gradients are sent between workers over plain TCP (NCCL between GPUs), even if the cluster encrypts with tls://.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise, product
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.dask.gang import Gang, GangError, retry_collective
from gpupipe.dask.progress import show_worker_reports
from gpupipe.dask.worker_process import require_not_cancelled
from gpupipe.dask.workers import DaskWorkers
from gpupipe.errors import ConfigError, DeviceError
from gpupipe.models import FitContext, FittedModel
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.embeddings import MOST_ROWS
from gpupipe.models.neural.fit import TrainingStep, fitted_network, open_checkpoint, refusal, train_twice
from gpupipe.models.neural.ranks.rendezvous import Rendezvous, join_group, listen
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.neural.shard_training import (
    ShardedProblem,
    ShardRows,
    TrainedNetwork,
    TrainingShard,
    matrix_tensor,
    train_shard,
)
from gpupipe.models.neural.training_problem import TrainingProblem, make_training_problem
from gpupipe.models.progress import ShowProgress
from gpupipe.models.training import prepare_rows
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.partitions.workers import ResultHandle
from gpupipe.tensors.allocator import share_memory
from gpupipe.typing import Array


def fit_network(model: NeuralSettings, X: PartitionedMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train `model` on a matrix in partitions; training restarts on the remaining workers if one is lost.

    It continues after the last saved epoch if rank 0 can read the folder of the checkpoints, on this machine or in a
    shared folder. `X` has no empty partitions, and numbers before ids. `y` has class codes or numbers of all rows, on
    the host, shape (n,). Raise ClusterError if workers were lost in every attempt, or the cluster made no progress;
    LimitError if a worker lacks the memory for its shard; ConfigError, DataError as `gpupipe.models.fit`.
    """
    n_processes = context.resources.n_processes
    if n_processes > 1:
        fix = "remove it: the workers share the training, one process each"
        raise ConfigError("--nproc is for processes on one machine", where=f"--nproc {n_processes}", fix=fix)
    rows = prepare_rows(model, X, y, context)
    assert rows.y is not None
    workers = X.workers
    assert isinstance(workers, DaskWorkers)
    problem = make_training_problem(model, X.shape[1], rows.y, rows.weights, rows.classes, context)
    where, told = f"training {type(model).__name__}", list[str]()

    def train(step: TrainingStep) -> TrainedNetwork:
        checkpoint = open_checkpoint(context.resources, step.is_refit)
        if checkpoint is not None:
            checkpoint.path = checkpoint.path.absolute()  # the same path on every worker

        def attempt(begun: int) -> tuple[TrainedNetwork, list[str]]:
            if checkpoint is not None and begun > 1:
                checkpoint.resume = True
            with _gang(X, workers, where) as gang:
                return _together(gang, step, X, context, checkpoint, begun)

        trained, notes = retry_collective(workers, attempt, where)
        told.extend(notes)
        return trained

    trained, found = train_twice(TrainingStep(model, problem), train)
    fitted = fitted_network(trained, found, problem, rows.classes, context, "workers")
    return replace(fitted, notes=(*fitted.notes, *dict.fromkeys(told)))


def _together(
    gang: Gang,
    step: TrainingStep,
    X: PartitionedMatrix,
    context: FitContext,
    checkpoint: Checkpoint | None,
    begun: int,
) -> tuple[TrainedNetwork, list[str]]:
    """Train on the workers of a gang, in attempt `begun`; return the network and the notes."""
    problem = step.problem
    shards = gang.submit_each(shard, shard_arguments(X, problem, len(gang.addresses)))
    heights = gang.gather(gang.submit_each(lambda _, made: len(made.training.target), [(made,) for made in shards]))
    sharded_problem = ShardedProblem(
        step.model,
        problem.architecture,
        context.task,
        context.seed,
        tuple(heights),
        step.n_epochs,
        tuple(context.quantiles),
        tuple(context.targets),
    )
    told = []
    if checkpoint is not None and not _can_reach(gang, checkpoint):
        told.append("the workers cannot read the folder of the checkpoints; training starts from the beginning")
        checkpoint = None
    ranks = zip(shards, _rendezvous(gang), gang.addresses, strict=True)
    gang.await_threads()
    with show_worker_reports(gang.workers.client, context.resources.show_progress) as reports:
        tasks = gang.submit_each(
            _train,
            [
                (
                    sharded_problem,
                    made,
                    rendezvous,
                    None if rank else checkpoint,
                    gang.n_threads[address],
                    require_not_cancelled,
                    reports,
                )
                for rank, (made, rendezvous, address) in enumerate(ranks)
            ],
        )
        trained, *_ = gang.gather(tasks)
    assert trained is not None
    if begun > 1:
        after = trained.progress.resumed
        where = f"it continued after epoch {after}" if after else "it started from the beginning"
        told.append(f"workers were lost and training was started {begun} times; the last time {where}")
    return trained, told


def _gang(X: PartitionedMatrix, workers: DaskWorkers, where: str) -> Gang:
    """Return the workers that train, each with the rank whose rows it holds most of."""
    X.compute(lambda _, rows: rows.shape[0], label="rows for a network")  # recomputes lost partitions
    workers.poll()
    if not workers.health.workers:
        raise GangError("no workers are left", where=where)
    # With less than one partition each, most workers would wait.
    n = min(len(workers.health.workers), len(X.partitions))
    shares = [
        [max(0, min(high, stop) - max(low, start)) for start, stop in pairwise(X.bounds)]
        for low, high in pairwise(shard_bounds(X.n_rows, n))
    ]
    return Gang(workers, assign_ranks(shares, workers.homes(X.partitions), sorted(workers.health.workers)), where)


def assign_ranks(shares: Sequence[Sequence[int]], homes: Sequence[str], workers: Sequence[str]) -> list[str]:
    """Return a different worker for each shard, preferably the one that holds most of its rows.

    `shares` has, for each shard, its rows in each partition; there are at most as many shards as workers. `homes` has
    the address of the worker that holds each partition, or any other text if there is none.
    """
    held = {
        (rank, worker): sum(n_rows for n_rows, home in zip(share, homes, strict=True) if home == worker)
        for (rank, share), worker in product(enumerate(shares), workers)
    }
    found: dict[int, str] = {}
    for rank, worker in sorted(held, key=lambda pair: -held[pair]):
        if rank not in found and worker not in found.values():
            found[rank] = worker
    return [found[rank] for rank in range(len(shares))]


def _can_reach(gang: Gang, checkpoint: Checkpoint) -> bool:
    """Return whether rank 0 can read the folder of the checkpoint under the same path."""
    folder = checkpoint.path.parent
    folder.mkdir(0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=folder, suffix=".probe") as probe:
        (found,) = gang.gather([gang.submit(0, lambda _, path: Path(path).is_file(), probe.name)])
    with suppress(OSError):  # others are in it
        folder.rmdir()
    return found


def _rendezvous(gang: Gang) -> list[Rendezvous]:
    """Return the rendezvous of each worker of a gang, at the address where Dask's workers reach the first one."""
    from distributed.comm import get_address_host

    size, seconds = len(gang.addresses), gang.workers.health.deadline
    if size == 1:
        return [Rendezvous()]
    hosts = [get_address_host(address) for address in gang.addresses]
    (port,) = gang.gather([gang.submit(0, lambda _, host: listen(host), hosts[0])])
    interfaces = gang.gather(gang.submit_each(lambda _, host: _interface(host), [(host,) for host in hosts]))
    return [Rendezvous(rank, size, hosts[0], port, interfaces[rank], seconds) for rank in range(size)]


def _train(
    backend: Backend,
    sharded_problem: ShardedProblem,
    made: WorkerShard,
    rendezvous: Rendezvous,
    checkpoint: Checkpoint | None,
    n_tasks: int,
    safe_point: Callable[[str], None],
    show_progress: ShowProgress,
) -> TrainedNetwork | None:
    """Train on one shard with the threads of `n_tasks` tasks, which the worker has free; rank 0 returns the network."""
    refused = refusal(backend)
    if refused is not None:
        raise DeviceError(f"a worker cannot train networks: {refused.what}", where="models", fix=refused.fix)
    share_memory(backend)
    tensors = made.to_tensors(sharded_problem.architecture.n_numbers)
    n_threads, join = n_tasks * backend.n_threads, partial(join_group, rendezvous)
    trained = train_shard(sharded_problem, tensors, n_threads, join, checkpoint, safe_point, show_progress)
    if rendezvous.rank:
        return None
    return replace(trained, network=trained.network.cpu(), progress=replace(trained.progress, weights={}))


def _interface(host: str) -> str:
    """Return the network interface that has an address on this machine; ``""`` if there is none."""
    import psutil  # Dask's own

    address = socket.gethostbyname(host) if ":" not in host else host
    found = psutil.net_if_addrs().items()
    return next((name for name, known in found if any(a.address.partition("%")[0] == address for a in known)), "")


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

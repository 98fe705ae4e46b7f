"""Networks trained by all workers together: distributed data parallel, each worker with its shard of the rows.

The rows go from worker to worker, never through the driver, which has the target and draws the same validation rows as
on one machine. Bin edges, the scale of the target and the embedding of unseen ids are those of one machine, too. A
batch, however, has as many rows of each worker, drawn among its own, so losses differ with the number of workers, as
between two seeds. They do not depend on the partitions or their places: rank 0 has the first rows. Where one worker has
all the rows, nothing differs from one machine.

Gradients travel between the workers as plain TCP (NCCL between GPUs), also in a cluster that encrypts with tls://.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile

from gpupipe.backends.base import Backend
from gpupipe.dask.gang import Gang, GangError, retry_collective
from gpupipe.dask.progress import show_worker_reports
from gpupipe.dask.shards import WorkerShard, shard, shard_arguments, shard_bounds
from gpupipe.dask.worker_process import require_not_cancelled
from gpupipe.dask.workers import DaskWorkers
from gpupipe.errors import ConfigError, DeviceError
from gpupipe.models import FitContext, FittedModel
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.fit import fitted_network, open_checkpoint, refusal
from gpupipe.models.neural.ranks.rendezvous import Rendezvous, join_group, listen
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.neural.shard_training import ShardedProblem, TrainedNetwork, train_shard
from gpupipe.models.neural.training_problem import TrainingProblem, make_training_problem
from gpupipe.models.progress import ShowProgress
from gpupipe.models.training import prepare_rows
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.tensors.allocator import share_memory
from gpupipe.typing import Array


def fit_network(model: NeuralSettings, X: PartitionedMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train `model` on a matrix in partitions; a training that loses a worker begins again with those that are left.

    It then goes on after the last epoch that was saved, where the worker that leads it reaches the folder of the
    checkpoints: on this machine, or in a folder that both share.

    Parameters
    ----------
    model : NeuralSettings
    X : PartitionedMatrix
        Without empty partitions; numbers first, ids last.
    y : array, shape (n,)
        Class codes, or numbers, of all rows, on the host.
    context : FitContext

    Raises
    ------
    ClusterError
        If workers were lost again and again, or the cluster stands still.
    LimitError
        If a worker has not the memory for its share.
    ConfigError, DataError
        As `gpupipe.models.fit`.
    """
    n_processes = context.resources.n_processes
    if n_processes > 1:
        fix = "leave it out: the workers share the training, each as one process"
        raise ConfigError("--nproc starts processes of one machine", where=f"--nproc {n_processes}", fix=fix)
    rows = prepare_rows(model, X, y, context)
    assert rows.y is not None
    workers = X.workers
    assert isinstance(workers, DaskWorkers)
    problem = make_training_problem(model, X.shape[1], rows.y, rows.weights, rows.classes, context)
    checkpoint, where = open_checkpoint(context.resources), f"training {type(model).__name__}"
    if checkpoint is not None:
        checkpoint.path = checkpoint.path.absolute()  # wherever a worker runs, it means the same

    def attempt(begun: int) -> tuple[TrainedNetwork, list[str]]:
        if checkpoint is not None and begun > 1:
            checkpoint.resume = True
        with _gang(X, workers, where) as gang:
            return _together(gang, model, X, problem, context, checkpoint, begun)

    trained, told = retry_collective(workers, attempt, where)
    fitted = fitted_network(trained, problem, rows.classes, context, "workers")
    return replace(fitted, notes=(*fitted.notes, *told))


def _together(
    gang: Gang,
    model: NeuralSettings,
    X: PartitionedMatrix,
    problem: TrainingProblem,
    context: FitContext,
    checkpoint: Checkpoint | None,
    begun: int,
) -> tuple[TrainedNetwork, list[str]]:
    """Train on the workers of a gang, for the `begun`-th time; return the network, and what else should be known."""
    shards = gang.submit_each(shard, shard_arguments(X, problem, len(gang.addresses)))
    heights = gang.gather(gang.submit_each(lambda _, made: len(made.training.target), [(made,) for made in shards]))
    sharded_problem = ShardedProblem(model, problem.architecture, context.task, context.seed, tuple(heights))
    told = []
    if checkpoint is not None and not _can_reach(gang, checkpoint):
        told.append("the workers do not reach the folder of the checkpoints: there is none to go on from")
        checkpoint = None
    ranks = zip(shards, _rendezvous(gang), gang.addresses, strict=True)
    gang.await_threads()
    with show_worker_reports(gang.workers.client, context.resources.show_progress) as reports:
        tasks = gang.submit_each(_train, [
            (
                sharded_problem, made, rendezvous, None if rank else checkpoint, gang.n_threads[address],
                require_not_cancelled, reports,
            )
            for rank, (made, rendezvous, address) in enumerate(ranks)
        ])  # fmt: skip
        trained, *_ = gang.gather(tasks)
    assert trained is not None
    if begun > 1:
        after = trained.progress.resumed
        where = f"it went on after epoch {after}" if after else "it began from the start"
        told.append(f"workers were lost, and the training was begun {begun} times; at last {where}")
    return trained, told


def _gang(X: PartitionedMatrix, workers: DaskWorkers, where: str) -> Gang:
    """Return the workers that share a training, each as the rank whose rows it has most of."""
    X.compute(lambda _, rows: rows.shape[0], label="rows for a network")  # what was lost is computed again
    workers.poll()
    if not workers.health.workers:
        raise GangError("no workers are left", where=where)
    # With less than a partition each, all workers but some would wait.
    n = min(len(workers.health.workers), len(X.partitions))
    shares = [
        [max(0, min(high, stop) - max(low, start)) for start, stop in pairwise(X.bounds)]
        for low, high in pairwise(shard_bounds(X.n_rows, n))
    ]
    return Gang(workers, assign_ranks(shares, workers.homes(X.partitions), sorted(workers.health.workers)), where)


def assign_ranks(shares: Sequence[Sequence[int]], homes: Sequence[str], workers: Sequence[str]) -> list[str]:
    """Return a different worker for each shard, preferring the one that already holds most of its rows.

    Parameters
    ----------
    shares : sequence of sequences of int
        For each shard, of which there are at most as many as workers, its rows in each partition.
    homes : sequence of str
        The address of the worker that holds each partition; any other text if none does.
    workers : sequence of str
        Addresses.
    """
    held = {
        (rank, worker): sum(n_rows for n_rows, home in zip(share, homes, strict=True) if home == worker)
        for rank, share in enumerate(shares)
        for worker in workers
    }
    found: dict[int, str] = {}
    for rank, worker in sorted(held, key=lambda pair: -held[pair]):
        if rank not in found and worker not in found.values():
            found[rank] = worker
    return [found[rank] for rank in range(len(shares))]


def _can_reach(gang: Gang, checkpoint: Checkpoint) -> bool:
    """Return whether the worker of rank 0 reaches the folder of the checkpoint under the path of this process."""
    folder = checkpoint.path.parent
    folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=folder, suffix=".probe") as probe:
        (found,) = gang.gather([gang.submit(0, lambda _, path: Path(path).is_file(), probe.name)])
    with suppress(OSError):  # others are in it
        folder.rmdir()
    return found


def _rendezvous(gang: Gang) -> list[Rendezvous]:
    """Return the rendezvous of each worker of a gang: at the address by which Dask's workers reach the first one."""
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
    """Train on one shard with the threads of `n_tasks` tasks, all of which the worker has free; rank 0 returns it."""
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
    """Return the network interface of this machine that has an address; ``""`` if none has."""
    import psutil  # Dask's own

    address = socket.gethostbyname(host) if ":" not in host else host
    found = psutil.net_if_addrs().items()
    return next((name for name, known in found if any(a.address.partition("%")[0] == address for a in known)), "")

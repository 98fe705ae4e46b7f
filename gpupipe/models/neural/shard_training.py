"""A training whose rows are in shards: each rank trains on its own and never sees those of the others.

The result equals that of one process, except for the order of rows: a batch takes equally many rows of each shard, and
an epoch shuffles within each shard. With one shard it is the training of one process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gpupipe.errors import DeviceError
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.bin_edges import bin_edges
from gpupipe.models.neural.broadcast_training import new_network, run_trainer
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.fit import refusal
from gpupipe.models.neural.modules import Network
from gpupipe.models.neural.ranks.collectives import Communicator
from gpupipe.models.neural.ranks.rendezvous import Rendezvous, join_group
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.neural.torch_state import preserve_torch_state
from gpupipe.models.neural.trainer import Progress, Trainer
from gpupipe.models.neural.training_spec import TrainingSpec, make_training_spec
from gpupipe.models.progress import ShowProgress, show_nothing
from gpupipe.tasks import Task
from gpupipe.tensors.allocator import share_memory
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.batches import Batches
from gpupipe.tensors.handover import hand_over
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend


@dataclass(frozen=True)
class ShardRows:
    """Some rows: the matrix of the backend, float32, shape (n, d); target and weights on the host, shape (n,)."""

    matrix: Array
    target: Array
    weight: Array | None


@dataclass(frozen=True)
class TrainingShard:
    """The rows of one rank.

    Attributes
    ----------
    training, validation : ShardRows
    sample : array of float32, shape (m, d)
        On rank 0, a sample of the training rows of all shards, from which the bin edges of numbers are computed.
    """

    training: ShardRows
    validation: ShardRows
    sample: Array


@dataclass(frozen=True)
class ShardedProblem:
    """The training problem that all ranks share.

    Attributes
    ----------
    model : NeuralSettings
    architecture : Architecture
    task : Task
    seed : int
    heights : tuple of int
        Training rows of each shard.
    """

    model: NeuralSettings
    architecture: Architecture
    task: Task
    seed: int
    heights: tuple[int, ...]


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network on the host with its best weights; the progress has no weights."""

    network: Network
    progress: Progress
    spec: TrainingSpec


def train_shard(
    problem: ShardedProblem,
    shard: TrainingShard,
    rendezvous: Rendezvous,
    checkpoint: Checkpoint | None,
    backend: Backend,
    n_threads: int,
    safe_point: Callable[[str], None],
    show_progress: ShowProgress,
) -> TrainedNetwork | None:
    """Train on one shard together with the ranks of the others; return the trained network on rank 0, else None.

    Every rank calls `safe_point` after each epoch but the last; what it raises ends the training. Rank 0 alone reports
    to `show_progress`.

    Raises
    ------
    DeviceError
        If PyTorch cannot use the device that the rows are on.
    ConfigError, RuntimeError
        As `Trainer.run` and `join_group`.
    """
    refused = refusal(backend)
    if refused is not None:
        raise DeviceError(f"a worker cannot train networks: {refused.what}", where="models", fix=refused.fix)
    share_memory(backend)
    n_numbers = problem.architecture.n_numbers
    training, validation = (_batch(rows, n_numbers) for rows in (shard.training, shard.validation))
    device = training.features.device
    with preserve_torch_state(device, n_threads), join_group(rendezvous, device) as processes:
        shown = show_nothing if rendezvous.rank else show_progress
        trained = _trained(problem, shard, training, validation, processes, checkpoint, safe_point, shown)
    return None if rendezvous.rank else trained


def _trained(
    problem: ShardedProblem,
    shard: TrainingShard,
    training: TensorBatch[Tensor],
    validation: TensorBatch[Tensor],
    processes: Communicator,
    checkpoint: Checkpoint | None,
    safe_point: Callable[[str], None],
    show_progress: ShowProgress,
) -> TrainedNetwork:
    """Train; on return nothing holds the process group (see `join_group`)."""
    architecture, device = problem.architecture, training.features.device
    n_rows = sum(problem.heights)
    asked = make_training_spec(problem.model, problem.task, problem.seed, n_rows, processes.size, device)
    spec: TrainingSpec = processes.broadcast(asked)
    network = new_network(architecture, spec.seed, _edges(shard, architecture)).to(device)
    trainer = _trainer(network, spec, training, validation, problem.heights, processes)
    progress = run_trainer(trainer, checkpoint, safe_point, show_progress)
    if network.categories is not None:
        network.categories.fill_unseen(_counts(training, architecture, processes))
    return TrainedNetwork(network.cpu(), replace(progress, weights={}), spec)


def _batch(rows: ShardRows, n_numbers: int) -> TensorBatch[Tensor]:
    matrix, _ = hand_over(rows.matrix, "torch", copy=not getattr(rows.matrix.flags, "writeable", True))
    device = matrix.device
    return TensorBatch(
        matrix[:, :n_numbers].contiguous(),
        matrix[:, n_numbers:].to(torch.int32) if matrix.shape[1] > n_numbers else None,
        torch.tensor(rows.target, device=device),
        None if rows.weight is None else torch.tensor(rows.weight, device=device),
    )


def _edges(shard: TrainingShard, architecture: Architecture) -> list[Tensor]:
    """Return the bin edges, on rank 0 only; the others receive them with the weights."""
    if not len(shard.sample):
        return []
    sample, _ = hand_over(shard.sample, "torch", copy=not getattr(shard.sample.flags, "writeable", True))
    return [bin_edges(sample[:, j], architecture.n_bins) for j in range(architecture.n_numbers)]


def _trainer(
    network: Network,
    spec: TrainingSpec,
    training: TensorBatch[Tensor],
    validation: TensorBatch[Tensor],
    heights: tuple[int, ...],
    processes: Communicator,
) -> Trainer:
    each = spec.batch_size // processes.size
    # All take as many steps. Where a shard has a row more than the others, one row may be left out of an epoch.
    n_steps = -(-min(heights) // each)
    rows_of_steps = [sum(min(each, height - step * each) for height in heights) for step in range(n_steps)]
    mean_weight = 1.0
    if training.weight is not None:
        mean_weight = float(processes.all_reduce_sum(training.weight.double().sum())) / sum(heights)
    shuffled = Batches(training, each, seed=spec.seed)
    held = Batches(validation, spec.batch_size, shuffle=False)
    return Trainer(network, spec, shuffled, held, rows_of_steps, mean_weight, processes)


def _counts(training: TensorBatch[Tensor], architecture: Architecture, processes: Communicator) -> list[Tensor]:
    """Return how many training rows of all shards have each id, for each column."""
    assert training.ids is not None
    return [
        processes.all_reduce_sum(training.ids[:, j].bincount(minlength=n))
        for j, n in enumerate(architecture.cardinalities)
    ]

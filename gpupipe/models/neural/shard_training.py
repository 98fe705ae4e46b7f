"""A training whose rows are in shards: each process has its own, and never sees those of the others.

It learns what one process would, but for the order of rows: a batch takes as many rows of each shard, and an epoch
draws them anew within each shard. Of one shard it is the very training of one process.
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
from gpupipe.models.neural.ranks.collectives import Processes
from gpupipe.models.neural.ranks.rendezvous import Meeting, met
from gpupipe.models.neural.settings import Neural
from gpupipe.models.neural.torch_state import own_pytorch
from gpupipe.models.neural.trainer import Progress, Trainer
from gpupipe.models.neural.training_spec import Recipe, recipe_of
from gpupipe.models.progress import ShowProgress, show_nothing
from gpupipe.models.task import Task
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
class Shard:
    """What one process has.

    Attributes
    ----------
    training, validation : ShardRows
    sample : array of float32, shape (m, d)
        In the shard of rank 0 the training rows, of all shards, that say where the bins of numbers end.
    """

    training: ShardRows
    validation: ShardRows
    sample: Array


@dataclass(frozen=True)
class Curriculum:
    """What all processes are told.

    Attributes
    ----------
    model : Neural
    architecture : Architecture
    task : Task
    seed : int
    heights : tuple of int
        Training rows of each shard.
    """

    model: Neural
    architecture: Architecture
    task: Task
    seed: int
    heights: tuple[int, ...]


@dataclass(frozen=True)
class Trained:
    """The network, on the host, with its best weights, and how it came to them (without weights)."""

    network: Network
    progress: Progress
    recipe: Recipe


def train_shard(
    curriculum: Curriculum,
    shard: Shard,
    meeting: Meeting,
    checkpoint: Checkpoint | None,
    backend: Backend,
    n_threads: int,
    safe_point: Callable[[str], None],
    show_progress: ShowProgress,
) -> Trained | None:
    """Train on one shard, together with the owners of the others; return the trained network on rank 0, else None.

    Every rank calls `safe_point` after each epoch but the last; what it raises ends the training. Rank 0 alone reports
    to `show_progress`.

    Raises
    ------
    DeviceError
        If PyTorch cannot use the device that the rows are on.
    ConfigError, RuntimeError
        As `Trainer.run` and `met`.
    """
    refused = refusal(backend)
    if refused is not None:
        raise DeviceError(f"a worker cannot train networks: {refused.what}", where="models", fix=refused.fix)
    share_memory(backend)
    n_numbers = curriculum.architecture.n_numbers
    training, validation = (_batch(rows, n_numbers) for rows in (shard.training, shard.validation))
    device = training.features.device
    with own_pytorch(device, n_threads), met(meeting, device) as processes:
        shown = show_nothing if meeting.rank else show_progress
        trained = _trained(curriculum, shard, training, validation, processes, checkpoint, safe_point, shown)
    return None if meeting.rank else trained


def _trained(
    curriculum: Curriculum,
    shard: Shard,
    training: TensorBatch[Tensor],
    validation: TensorBatch[Tensor],
    processes: Processes,
    checkpoint: Checkpoint | None,
    safe_point: Callable[[str], None],
    show_progress: ShowProgress,
) -> Trained:
    """Train; behind this function nothing holds on to the group of the processes (see `met`)."""
    architecture, device = curriculum.architecture, training.features.device
    n_rows = sum(curriculum.heights)
    asked = recipe_of(curriculum.model, curriculum.task, curriculum.seed, n_rows, processes.size, device)
    recipe: Recipe = processes.tell(asked)
    network = new_network(architecture, recipe.seed, _edges(shard, architecture)).to(device)
    trainer = _trainer(network, recipe, training, validation, curriculum.heights, processes)
    progress = run_trainer(trainer, checkpoint, safe_point, show_progress)
    if network.categories is not None:
        network.categories.fill_unseen(_counts(training, architecture, processes))
    return Trained(network.cpu(), replace(progress, weights={}), recipe)


def _batch(rows: ShardRows, n_numbers: int) -> TensorBatch[Tensor]:
    matrix, _ = hand_over(rows.matrix, "torch", copy=not getattr(rows.matrix.flags, "writeable", True))
    device = matrix.device
    return TensorBatch(
        matrix[:, :n_numbers].contiguous(),
        matrix[:, n_numbers:].to(torch.int32) if matrix.shape[1] > n_numbers else None,
        torch.tensor(rows.target, device=device),
        None if rows.weight is None else torch.tensor(rows.weight, device=device),
    )


def _edges(shard: Shard, architecture: Architecture) -> list[Tensor]:
    """Return the edges of the bins; only rank 0 has rows for them, and the others are told with its weights."""
    if not len(shard.sample):
        return []
    sample, _ = hand_over(shard.sample, "torch", copy=not getattr(shard.sample.flags, "writeable", True))
    return [bin_edges(sample[:, j], architecture.n_bins) for j in range(architecture.n_numbers)]


def _trainer(
    network: Network,
    recipe: Recipe,
    training: TensorBatch[Tensor],
    validation: TensorBatch[Tensor],
    heights: tuple[int, ...],
    processes: Processes,
) -> Trainer:
    each = recipe.batch_size // processes.size
    # All take as many steps. Where a shard has a row more than the others, one row may be left out of an epoch.
    n_steps = -(-min(heights) // each)
    rows_of_steps = [sum(min(each, height - step * each) for height in heights) for step in range(n_steps)]
    mean_weight = 1.0
    if training.weight is not None:
        mean_weight = float(processes.add(training.weight.double().sum())) / sum(heights)
    shuffled = Batches(training, each, seed=recipe.seed)
    held = Batches(validation, recipe.batch_size, shuffle=False)
    return Trainer(network, recipe, shuffled, held, rows_of_steps, mean_weight, processes)


def _counts(training: TensorBatch[Tensor], architecture: Architecture, processes: Processes) -> list[Tensor]:
    """Return how many training rows of all shards have each id, for each column."""
    assert training.ids is not None
    return [processes.add(training.ids[:, j].bincount(minlength=n)) for j, n in enumerate(architecture.cardinalities)]

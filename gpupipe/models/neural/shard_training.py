"""Training of a network on shards of rows: one rank per shard, or several ranks on a single shard.

A single process is one shard with one rank. Ranks that share a shard split its batches, so the result equals that of a
single process to rounding. With several shards, a batch takes the same number of rows from each, and an epoch shuffles
within each shard: the result differs from a single process by the order of the rows.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gpupipe.errors import ConfigError
from gpupipe.models.context import never_stop
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.modules import Network
from gpupipe.models.neural.ranks.collectives import Communicator
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.neural.trainer import Progress, Trainer, take_rows
from gpupipe.models.neural.training_spec import TrainingSpec, make_training_spec
from gpupipe.models.progress import ShowProgress, show_nothing
from gpupipe.tasks import TargetSpec, Task
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.batches import Batches
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.receipt import Receipt
from gpupipe.tensors.shuffle import RankBatches
from gpupipe.typing import Array

INITIAL_ROWS = 1024  # a network is initialized by its outputs on about this many training rows


@dataclass(frozen=True)
class ShardRows:
    """Rows of a shard: the matrix of the backend, float32, shape (n, d); target and weights on the host."""

    matrix: Array
    target: Array
    weight: Array | None

    def to_batch(self, n_numbers: int) -> tuple[TensorBatch[Tensor], Receipt]:
        """Return the rows as tensors on the device of the matrix, with `n_numbers` numeric columns, and the receipt."""
        matrix, receipt = matrix_tensor(self.matrix)
        batch = TensorBatch(
            matrix[:, :n_numbers],
            matrix[:, n_numbers:].to(torch.int32) if matrix.shape[1] > n_numbers else None,
            torch.tensor(self.target, device=matrix.device),
            None if self.weight is None else torch.tensor(self.weight, device=matrix.device),
        )
        return batch, receipt


def matrix_tensor(matrix: Array) -> tuple[Tensor, Receipt]:
    """Return a matrix as a tensor on its device, and the receipt."""
    # PyTorch does not support read-only memory: such a matrix is copied, which the receipt records.
    return hand_over(matrix, "torch", copy=not getattr(matrix.flags, "writeable", True))


@dataclass(frozen=True)
class TrainingShard:
    """The rows of a shard."""

    # training, validation: rows that the weights are fitted to, and held-out rows that select the best epoch;
    # row-major.
    training: TensorBatch[Tensor]
    validation: TensorBatch[Tensor]
    # Tensor of float32, shape (m, n_numbers): on rank 0, a sample of the training rows of all shards, from which the
    # bin edges of numbers are computed.
    sample: Tensor | None = None


@dataclass(frozen=True)
class ShardedProblem:
    """The training problem that all ranks share."""

    model: NeuralSettings
    architecture: Architecture
    task: Task
    seed: int
    # Number of training rows of each shard: one shard per rank, or a single shard for all ranks.
    heights: tuple[int, ...]
    # n_epochs, quantiles, targets: as for `TrainingSpec`.
    n_epochs: int | None = None
    quantiles: tuple[float, ...] = ()
    targets: tuple[TargetSpec, ...] = ()


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network with its best weights, and the number of ranks that trained it."""

    network: Network
    progress: Progress
    spec: TrainingSpec
    n_ranks: int


def train_shard(
    problem: ShardedProblem,
    shard: TrainingShard,
    n_threads: int,
    join: Callable[[torch.device], AbstractContextManager[Communicator]],
    checkpoint: Checkpoint | None = None,
    safe_point: Callable[[str], None] = never_stop,
    show_progress: ShowProgress = show_nothing,
) -> TrainedNetwork:
    """Train on one shard in the process group that `join` opens on the device of the rows; return the network.

    Every rank that has a shard calls `safe_point` after each epoch except the last; it stops the training by raising.
    Only rank 0 reports to `show_progress`. Ranks without a shard (`serve_trainings`) receive the only shard. Raise
    ConfigError if there are more ranks than rows, the network cannot be compiled, or as raised by `Trainer.run`.
    """
    device = shard.training.features.device
    with _preserve_torch_state(device, n_threads), join(device) as processes:
        if len(problem.heights) < processes.size:
            processes.broadcast((problem, replace(shard, sample=None)))
        return train_rank(problem, shard, processes, checkpoint, safe_point, show_progress)


def serve_trainings(processes: Communicator) -> None:
    """Train on the shards that rank 0 sends, until it sends None; only rank 0 decides when a training stops."""
    while (job := processes.broadcast()) is not None:
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        problem, shard = job
        train_rank(problem, shard, processes)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def train_rank(
    problem: ShardedProblem,
    shard: TrainingShard,
    processes: Communicator,
    checkpoint: Checkpoint | None = None,
    safe_point: Callable[[str], None] = never_stop,
    show_progress: ShowProgress = show_nothing,
) -> TrainedNetwork:
    """Train on one shard as one of the ranks; on return nothing references their process group."""
    architecture, device = problem.architecture, shard.training.features.device
    own_spec = make_training_spec(
        problem.model, problem.task, problem.seed, sum(problem.heights), processes.size, device
    )
    spec: TrainingSpec = processes.broadcast(
        replace(own_spec, n_epochs=problem.n_epochs, quantiles=problem.quantiles, targets=problem.targets)
    )
    network = _new_network(architecture, spec.seed, shard).to(device)
    trainer = _trainer(network, spec, shard, problem.heights, processes)
    with _compiler_explained(spec.model.compile):
        progress = trainer.run(checkpoint, safe_point, show_nothing if processes.rank else show_progress)
    if network.categories is not None:
        network.categories.fill_unseen(_counts(shard.training, architecture, processes))
    return TrainedNetwork(network, progress, spec, processes.size)


def _new_network(architecture: Architecture, seed: int, shard: TrainingShard) -> Network:
    """Return the initial network on the host; without a sample, rank 0 sends it when it is wrapped."""
    torch.manual_seed(seed)
    network = Network(architecture)
    if shard.sample is not None:
        if network.numbers is not None:
            network.numbers.learn_columns(shard.sample)
        few = take_rows(shard.training, slice(None, None, max(1, len(shard.training) // INITIAL_ROWS)))
        network.initialize(few.features.cpu(), None if few.ids is None else few.ids.cpu())
    return network


def _trainer(
    network: Network, spec: TrainingSpec, shard: TrainingShard, heights: Sequence[int], processes: Communicator
) -> Trainer:
    n_sharers = processes.size // len(heights)  # ranks that take parts of the batches of one shard
    sharer, each = processes.rank % n_sharers, spec.batch_size // processes.size
    # All ranks take the same number of steps. If a shard has one row more than the others, an epoch may skip one row.
    n_steps = min(len(RankBatches(height, each, sharer, n_sharers, drop_last=False)) for height in heights)
    n_rows = each * n_sharers  # rows of a shard per step
    rows_of_steps = [sum(min(n_rows, height - step * n_rows) for height in heights) for step in range(n_steps)]
    mean_weight = 1.0
    if shard.training.weight is not None:
        total = float(processes.all_reduce_sum(shard.training.weight.double().sum()))
        mean_weight = total / (sum(heights) * n_sharers)
    shuffled = Batches(shard.training, each, seed=spec.seed, rank=sharer, world_size=n_sharers)
    held = shard.validation
    if n_sharers > 1 and len(held):
        held = take_rows(held, torch.arange(sharer, len(held), n_sharers, device=held.features.device))
    validation = Batches(held, spec.batch_size, shuffle=False) if len(held) else ()
    return Trainer(network, spec, shuffled, validation, rows_of_steps, mean_weight, processes)


def _counts(training: TensorBatch[Tensor], architecture: Architecture, processes: Communicator) -> list[Tensor]:
    """Return for each column the number of training rows with each id, over all ranks."""
    assert training.ids is not None
    return [
        processes.all_reduce_sum(training.ids[:, j].bincount(minlength=n))
        for j, n in enumerate(architecture.cardinalities)
    ]


@contextmanager
def _preserve_torch_state(device: torch.device, n_threads: int) -> Iterator[None]:
    """Set PyTorch's global state for a training and restore it on exit.

    Inside, gradients are enabled, the default dtype is float32, the default device is the host, and PyTorch uses
    `n_threads` threads. Random generators are restored as well.
    """
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    generators = torch.random.fork_rng([device] if device.type == "cuda" else [])
    # A device context slows down every call of PyTorch, so it is entered only if needed.
    host = nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")
    with generators, torch.inference_mode(False), torch.enable_grad(), host:
        torch.set_num_threads(n_threads)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)


@contextmanager
def _compiler_explained(compiles: bool) -> Iterator[None]:
    """Raise errors of PyTorch's compiler as ConfigError with a fix."""
    try:
        yield
    except Exception as error:
        if not compiles:
            raise
        from torch._dynamo.exc import TorchDynamoException  # takes 1 s to import

        if not isinstance(error, TorchDynamoException):
            raise
        raise ConfigError(
            f"PyTorch cannot compile the network: {str(error).strip().splitlines()[0]}",
            where="models: compile",
            fix="remove compile, or install what it needs: a C++ compiler on the CPU, Triton on a GPU",
        ) from error

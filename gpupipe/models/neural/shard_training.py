"""Training of a network on shards of rows, by one rank for each shard, or by ranks that share the only one.

One process is the case of one shard and one rank. Ranks that share a shard take parts of the same batches: they learn
what one process learns, to rounding. Of several shards, a batch takes equally many rows of each, and an epoch shuffles
within each: they learn what one process learns, but for the order of rows.
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
from gpupipe.models.neural.embeddings import bin_edges
from gpupipe.models.neural.modules import Network
from gpupipe.models.neural.ranks.collectives import Communicator
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.neural.trainer import Progress, Trainer, TrainingSpec, make_training_spec, take_rows
from gpupipe.models.progress import ShowProgress, show_nothing
from gpupipe.tasks import Task
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.batches import Batches
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.receipt import Receipt
from gpupipe.tensors.shuffle import RankBatches
from gpupipe.typing import Array


@dataclass(frozen=True)
class ShardRows:
    """Some rows: the matrix of the backend, float32, shape (n, d); target and weights on the host, shape (n,)."""

    matrix: Array
    target: Array
    weight: Array | None

    def to_batch(self, n_numbers: int) -> tuple[TensorBatch[Tensor], Receipt]:
        """Return the rows as tensors where the matrix is, `n_numbers` columns of which are numbers, and its receipt."""
        matrix, receipt = matrix_tensor(self.matrix)
        batch = TensorBatch(
            matrix[:, :n_numbers],
            matrix[:, n_numbers:].to(torch.int32) if matrix.shape[1] > n_numbers else None,
            torch.tensor(self.target, device=matrix.device),
            None if self.weight is None else torch.tensor(self.weight, device=matrix.device),
        )
        return batch, receipt


def matrix_tensor(matrix: Array) -> tuple[Tensor, Receipt]:
    """Return a matrix as a tensor where it is, and its receipt."""
    # PyTorch has no memory that is read-only: of such a matrix it gets a copy, and the receipt says so.
    return hand_over(matrix, "torch", copy=not getattr(matrix.flags, "writeable", True))


@dataclass(frozen=True)
class TrainingShard:
    """The rows of a shard.

    Attributes
    ----------
    training, validation : TensorBatch
        Rows that the weights are fitted to, and rows that decide when to stop; row-major.
    sample : Tensor of float32, shape (m, n_numbers), optional
        On rank 0, a sample of the training rows of all shards, from which the bin edges of numbers are computed.
    """

    training: TensorBatch[Tensor]
    validation: TensorBatch[Tensor]
    sample: Tensor | None = None


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
        Training rows of each shard: one for each rank, or one that all ranks share.
    """

    model: NeuralSettings
    architecture: Architecture
    task: Task
    seed: int
    heights: tuple[int, ...]


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network with its best weights, and how many ranks trained it."""

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
    """Train on one shard with the ranks that `join` joins on the device of the rows.

    Every rank that has a shard calls `safe_point` after each epoch but the last; what it raises ends the training. Rank
    0 alone reports to `show_progress`. Ranks without a shard (`serve_trainings`) are sent the only one.

    Raises
    ------
    ConfigError
        If there are more ranks than rows, the network cannot be compiled, or as `Trainer.run`.
    """
    device = shard.training.features.device
    with _preserve_torch_state(device, n_threads), join(device) as processes:
        if len(problem.heights) < processes.size:
            processes.broadcast((problem, replace(shard, sample=None)))
        return train_rank(problem, shard, processes, checkpoint, safe_point, show_progress)


def serve_trainings(processes: Communicator) -> None:
    """Train on the shards that rank 0 sends, until it has no more; rank 0 alone decides when a training stops."""
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
    """Train on one shard as one of the ranks; on return nothing holds their process group."""
    architecture, device = problem.architecture, shard.training.features.device
    asked = make_training_spec(problem.model, problem.task, problem.seed, sum(problem.heights), processes.size, device)
    spec: TrainingSpec = processes.broadcast(asked)
    network = _new_network(architecture, spec.seed, shard.sample).to(device)
    trainer = _trainer(network, spec, shard, problem.heights, processes)
    with _compiler_explained(spec.model.compile):
        progress = trainer.run(checkpoint, safe_point, show_nothing if processes.rank else show_progress)
    if network.categories is not None:
        network.categories.fill_unseen(_counts(shard.training, architecture, processes))
    return TrainedNetwork(network, progress, spec, processes.size)


def _new_network(architecture: Architecture, seed: int, sample: Tensor | None) -> Network:
    """Return the initial network on the host; without a sample, it gets its bins from rank 0 as it is wrapped."""
    torch.manual_seed(seed)
    network = Network(architecture)
    if network.numbers is not None and sample is not None:
        columns = (sample[:, j] for j in range(architecture.n_numbers))
        network.numbers.set_edges([bin_edges(column, architecture.n_bins) for column in columns])
    return network


def _trainer(
    network: Network, spec: TrainingSpec, shard: TrainingShard, heights: Sequence[int], processes: Communicator
) -> Trainer:
    n_sharers = processes.size // len(heights)  # ranks that take parts of the batches of one shard
    sharer, each = processes.rank % n_sharers, spec.batch_size // processes.size
    # All take as many steps. Where a shard has a row more than the others, one row may be left out of an epoch.
    n_steps = min(len(RankBatches(height, each, sharer, n_sharers, drop_last=False)) for height in heights)
    n_rows = each * n_sharers  # of a shard in a step
    rows_of_steps = [sum(min(n_rows, height - step * n_rows) for height in heights) for step in range(n_steps)]
    mean_weight = 1.0
    if shard.training.weight is not None:
        total = float(processes.all_reduce_sum(shard.training.weight.double().sum()))
        mean_weight = total / (sum(heights) * n_sharers)
    shuffled = Batches(shard.training, each, seed=spec.seed, rank=sharer, world_size=n_sharers)
    held = shard.validation
    if n_sharers > 1:
        held = take_rows(held, torch.arange(sharer, len(held), n_sharers, device=held.features.device))
    return Trainer(
        network, spec, shuffled, Batches(held, spec.batch_size, shuffle=False), rows_of_steps, mean_weight, processes
    )


def _counts(training: TensorBatch[Tensor], architecture: Architecture, processes: Communicator) -> list[Tensor]:
    """Return how many training rows of all ranks have each id, for each column."""
    assert training.ids is not None
    return [
        processes.all_reduce_sum(training.ids[:, j].bincount(minlength=n))
        for j, n in enumerate(architecture.cardinalities)
    ]


@contextmanager
def _preserve_torch_state(device: torch.device, n_threads: int) -> Iterator[None]:
    """Set PyTorch's global state for a training: gradients, float32, the host by default, `n_threads` threads.

    On exit, generators, default dtype and device, modes and the number of threads are restored.
    """
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    generators = torch.random.fork_rng([device] if device.type == "cuda" else [])
    # Entered, a device is asked at every call of PyTorch: only where there is need.
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
    """Raise errors of PyTorch's compiler as ConfigError with what to do."""
    try:
        yield
    except Exception as error:
        if not compiles:
            raise
        from torch._dynamo.exc import TorchDynamoException  # a second of imports

        if not isinstance(error, TorchDynamoException):
            raise
        raise ConfigError(
            f"PyTorch cannot compile the network: {str(error).strip().splitlines()[0]}",
            where="models: compile",
            fix="leave compile out, or install what it needs: a C++ compiler on the CPU, Triton on a GPU",
        ) from error

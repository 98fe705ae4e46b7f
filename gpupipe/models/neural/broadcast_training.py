"""A training whose rows rank 0 broadcasts: each rank has the same network and rows, and takes a share of every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from gpupipe.errors import ConfigError
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.bin_edges import bin_edges
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.modules import Network
from gpupipe.models.neural.ranks.collectives import Communicator, ProcessGroup
from gpupipe.models.neural.row_selection import take_rows
from gpupipe.models.neural.trainer import Progress, Trainer
from gpupipe.models.neural.training_spec import TrainingSpec
from gpupipe.models.progress import ShowProgress, show_nothing
from gpupipe.models.resources import never_stop
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.batches import Batches


@dataclass(frozen=True)
class BroadcastJob:
    """A training problem and its rows, as rank 0 broadcasts them.

    Attributes
    ----------
    architecture : Architecture
    spec : TrainingSpec
    rows : TensorBatch
        Tensors on the device.
    training, validation : Tensor of int64
        Rows that the weights are fitted to, and rows that decide when to stop.
    """

    architecture: Architecture
    spec: TrainingSpec
    rows: TensorBatch[Tensor]
    training: Tensor
    validation: Tensor

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors that another rank needs, contiguous: the columns of a matrix are its rows."""
        rows = self.rows
        assert rows.target is not None
        matrices = [rows.features.T, *([] if rows.ids is None else [rows.ids.T])]
        vectors = [rows.target, *([] if rows.weight is None else [rows.weight]), self.training, self.validation]
        return [tensor.contiguous() for tensor in [*matrices, *vectors]]

    def to_plain(self) -> dict[str, Any]:
        """Return the job without its tensors: plain values, and the shape and dtype of each tensor."""
        return {
            "architecture": asdict(self.architecture),
            "spec": asdict(self.spec),
            "has_ids": self.rows.ids is not None,
            "has_weight": self.rows.weight is not None,
            "tensors": [(tuple(tensor.shape), tensor.dtype) for tensor in self.tensors],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], tensors: list[Tensor]) -> BroadcastJob:
        """Return the job that `to_plain` and `tensors` describe."""
        left = iter(tensors)
        features = next(left).T
        ids = next(left).T if plain["has_ids"] else None
        target = next(left)
        weight = next(left) if plain["has_weight"] else None
        rows = TensorBatch(features, ids, target, weight)
        return cls(Architecture(**plain["architecture"]), TrainingSpec(**plain["spec"]), rows, next(left), next(left))


def broadcast_and_train(
    job: BroadcastJob,
    processes: Communicator,
    checkpoint: Checkpoint | None,
    safe_point: Callable[[str], None] = never_stop,
    show_progress: ShowProgress = show_nothing,
) -> tuple[Network, Progress]:
    """Train on rank 0, after the job was broadcast to other ranks; return the network with its best weights."""
    if processes.size > 1:
        processes.broadcast(job.to_plain())
        processes.broadcast_tensors(job.tensors)
    return train_rank(job, processes, checkpoint, safe_point, show_progress)


def receive_and_train(plain: dict[str, Any], group: ProcessGroup) -> None:
    """Receive the tensors of a job from rank 0, and train with it."""
    tensors = [torch.empty(shape, dtype=dtype, device=group.device) for shape, dtype in plain["tensors"]]
    group.broadcast_tensors(tensors)
    train_rank(BroadcastJob.from_plain(plain, tensors), group, None)


def train_rank(
    job: BroadcastJob,
    processes: Communicator,
    checkpoint: Checkpoint | None,
    safe_point: Callable[[str], None] = never_stop,
    show_progress: ShowProgress = show_nothing,
) -> tuple[Network, Progress]:
    """Train the share of this rank in a job."""
    spec, rows = job.spec, job.rows
    rank, size = processes.rank, processes.size
    edges = [bin_edges(rows.features[job.training, j], job.architecture.n_bins) for j in range(rows.features.shape[1])]
    training = take_rows(rows, job.training)
    shuffled = Batches(training, spec.batch_size // size, seed=spec.seed, rank=rank, world_size=size)
    validation = Batches(take_rows(rows, job.validation[rank::size]), spec.batch_size, shuffle=False)
    rows_of_steps = [min(spec.batch_size, len(training) - s * spec.batch_size) for s in range(len(shuffled))]
    mean_weight = 1.0 if training.weight is None else float(training.weight.double().sum()) / len(training)
    network = new_network(job.architecture, spec.seed, edges).to(rows.features.device)
    trainer = Trainer(network, spec, shuffled, validation, rows_of_steps, mean_weight, processes)
    return network, run_trainer(trainer, checkpoint, safe_point, show_progress)


def new_network(architecture: Architecture, seed: int, edges: Sequence[Tensor]) -> Network:
    """Return the initial network on the host; `edges` are the bin edges of its numbers."""
    torch.manual_seed(seed)
    network = Network(architecture)
    if network.numbers is not None:
        network.numbers.set_edges(edges)
    return network


def run_trainer(
    trainer: Trainer,
    checkpoint: Checkpoint | None,
    safe_point: Callable[[str], None] = never_stop,
    show_progress: ShowProgress = show_nothing,
) -> Progress:
    """Train to the end and return the progress; errors of PyTorch's compiler are raised as ConfigError."""
    with _compiler_explained(trainer.spec.compile):
        return trainer.run(checkpoint, safe_point, show_progress)


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

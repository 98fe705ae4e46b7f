"""One training as all its processes run it: the same network, the same rows, each its own part of every step."""

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
from gpupipe.models.neural.ranks.collectives import Group, Processes
from gpupipe.models.neural.row_selection import take_rows
from gpupipe.models.neural.trainer import Progress, Trainer
from gpupipe.models.neural.training_spec import Recipe
from gpupipe.models.progress import ShowProgress, show_nothing
from gpupipe.models.resources import go_on
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.batches import Batches


@dataclass(frozen=True)
class Job:
    """What is trained, how, and on what.

    Attributes
    ----------
    architecture : Architecture
    recipe : Recipe
    rows : TensorBatch
        Of tensors on the device.
    training, validation : Tensor of int64
        Which rows the weights are fitted to, and which decide when to stop.
    """

    architecture: Architecture
    recipe: Recipe
    rows: TensorBatch[Tensor]
    training: Tensor
    validation: Tensor

    @property
    def tensors(self) -> list[Tensor]:
        """Everything that another process needs, contiguous: the columns of a matrix as its lines."""
        rows = self.rows
        assert rows.target is not None
        matrices = [rows.features.T, *([] if rows.ids is None else [rows.ids.T])]
        vectors = [rows.target, *([] if rows.weight is None else [rows.weight]), self.training, self.validation]
        return [tensor.contiguous() for tensor in [*matrices, *vectors]]

    def to_plain(self) -> dict[str, Any]:
        """Return what describes the job beside its tensors: plain values, and the shape and dtype of each tensor."""
        return {
            "architecture": asdict(self.architecture),
            "recipe": asdict(self.recipe),
            "has_ids": self.rows.ids is not None,
            "has_weight": self.rows.weight is not None,
            "tensors": [(tuple(tensor.shape), tensor.dtype) for tensor in self.tensors],
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any], tensors: list[Tensor]) -> Job:
        """Return the job that `to_plain` and `tensors` describe."""
        left = iter(tensors)
        features = next(left).T
        ids = next(left).T if plain["has_ids"] else None
        target = next(left)
        weight = next(left) if plain["has_weight"] else None
        rows = TensorBatch(features, ids, target, weight)
        return cls(Architecture(**plain["architecture"]), Recipe(**plain["recipe"]), rows, next(left), next(left))


def lead(
    job: Job,
    processes: Processes,
    checkpoint: Checkpoint | None,
    safe_point: Callable[[str], None] = go_on,
    show_progress: ShowProgress = show_nothing,
) -> tuple[Network, Progress]:
    """Train with the other processes, if there are any; return the network with its best weights."""
    if processes.size > 1:
        processes.tell(job.to_plain())
        processes.send(job.tensors)
    return run(job, processes, checkpoint, safe_point, show_progress)


def take_part(plain: dict[str, Any], group: Group) -> None:
    """Receive the rows of a job, and train this process's part of it."""
    tensors = [torch.empty(shape, dtype=dtype, device=group.device) for shape, dtype in plain["tensors"]]
    group.send(tensors)
    run(Job.from_plain(plain, tensors), group, None)


def run(
    job: Job,
    processes: Processes,
    checkpoint: Checkpoint | None,
    safe_point: Callable[[str], None] = go_on,
    show_progress: ShowProgress = show_nothing,
) -> tuple[Network, Progress]:
    """Train this process's part of a job."""
    recipe, rows = job.recipe, job.rows
    rank, size = processes.rank, processes.size
    edges = [bin_edges(rows.features[job.training, j], job.architecture.n_bins) for j in range(rows.features.shape[1])]
    training = take_rows(rows, job.training)
    shuffled = Batches(training, recipe.batch_size // size, seed=recipe.seed, rank=rank, world_size=size)
    validation = Batches(take_rows(rows, job.validation[rank::size]), recipe.batch_size, shuffle=False)
    rows_of_steps = [min(recipe.batch_size, len(training) - s * recipe.batch_size) for s in range(len(shuffled))]
    mean_weight = 1.0 if training.weight is None else float(training.weight.double().sum()) / len(training)
    network = new_network(job.architecture, recipe.seed, edges).to(rows.features.device)
    trainer = Trainer(network, recipe, shuffled, validation, rows_of_steps, mean_weight, processes)
    return network, run_trainer(trainer, checkpoint, safe_point, show_progress)


def new_network(architecture: Architecture, seed: int, edges: Sequence[Tensor]) -> Network:
    """Return the network that a training begins with, on the host; `edges` are those of the bins of its numbers."""
    torch.manual_seed(seed)
    network = Network(architecture)
    if network.numbers is not None:
        network.numbers.set_edges(edges)
    return network


def run_trainer(
    trainer: Trainer,
    checkpoint: Checkpoint | None,
    safe_point: Callable[[str], None] = go_on,
    show_progress: ShowProgress = show_nothing,
) -> Progress:
    """Train to the end and return the progress; an error of PyTorch's compiler is explained to the user."""
    with _compiler_explained(trainer.recipe.compile):
        return trainer.run(checkpoint, safe_point, show_progress)


@contextmanager
def _compiler_explained(compiles: bool) -> Iterator[None]:
    """Say of an error of PyTorch's compiler what it means to the user."""
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

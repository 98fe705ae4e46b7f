"""Training of a network on one feature matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from gpupipe.backends.gpu.translation import EstimatorRefusal
from gpupipe.errors import ConfigError
from gpupipe.models.context import Resources
from gpupipe.models.neural.checkpoint import Checkpoint
from gpupipe.models.neural.fitted.pytorch import FittedNeural
from gpupipe.models.neural.fitted.scorer import Served
from gpupipe.models.neural.ranks.group import open_group
from gpupipe.models.neural.ranks.torchrun import local_world_size
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.neural.shard_training import (
    ShardedProblem,
    ShardRows,
    TrainedNetwork,
    TrainingShard,
    train_shard,
)
from gpupipe.models.neural.trainer import take_rows
from gpupipe.models.neural.training_problem import TrainingProblem, make_training_problem
from gpupipe.names import count_noun
from gpupipe.tensors.allocator import share_memory
from gpupipe.tensors.receipt import Receipt

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.models.context import FitContext
    from gpupipe.typing import Array


def fit_network(
    model: NeuralSettings,
    X: Array,
    y: Array,
    weights: Array | None,
    classes: tuple[int, ...],
    context: FitContext,
    threads: int,
) -> FittedNeural:
    """Train `model` on the device of the matrix and return the fitted network.

    Raise DataError if there are too few rows; ConfigError if the ids are not the last columns, there are more processes
    than rows, or the loss is NaN.

    - `X` (array of float32, shape (n, d), column-major): on the device of the backend; numbers first, ids last. Handed
      to PyTorch without a copy, never written to.
    - `y` (array, shape (n,) or (n, n_targets)): class codes below ``len(classes)``, or numbers; on the host
    - `weights`: array of float, shape (n,)
    - `classes`: see `FittedModel`
    """
    problem = make_training_problem(model, X.shape[1], y, weights, classes, context)
    n_processes, resources = _n_processes(context), context.resources
    share_memory(context.backend)
    n_threads = max(1, threads // max(n_processes, local_world_size()))
    receipts = []

    def train(step: TrainingStep) -> TrainedNetwork:
        shard, receipt = _only_shard(X, step.problem)
        receipts.append(receipt)
        heights = (len(step.problem.training),)
        return train_shard(
            ShardedProblem(
                step.model,
                problem.architecture,
                context.task,
                context.seed,
                heights,
                step.n_epochs,
                tuple(context.quantiles),
                tuple(context.targets),
            ),
            shard,
            n_threads,
            partial(open_group, n_processes, n_threads),
            open_checkpoint(resources, step.is_refit),
            resources.safe_point,
            resources.show_progress,
        )

    trained, found = train_twice(TrainingStep(model, problem), train)
    receipt = receipts[0]
    fitted = fitted_network(trained, found, problem, classes, context)
    return replace(fitted, backend=context.backend if context.backend.name == "gpu" else None, receipts=(receipt,))


@dataclass(frozen=True)
class TrainingStep:
    """One of the two trainings of a network."""

    model: NeuralSettings
    problem: TrainingProblem
    n_epochs: int | None = None  # number of epochs of the second training, on all rows

    @property
    def is_refit(self) -> bool:
        """True for the second training, on all rows."""
        return self.n_epochs is not None


def train_twice(
    step: TrainingStep, train: Callable[[TrainingStep], TrainedNetwork]
) -> tuple[TrainedNetwork, TrainedNetwork]:
    """Train, then train again on all rows for the number of epochs that was best; return the last and the first.

    They are the same, trained once, if the rows for early stopping were given. The second training keeps the batch
    size, the learning rates and the initial weights of the first one.
    """
    found = train(step)
    if step.problem.given is not None:
        return found, found
    model = step.model.model_copy(update={"batch_size": found.spec.batch_size})
    return train(TrainingStep(model, step.problem.with_all_rows(), found.progress.best + 1)), found


def fitted_network(
    trained: TrainedNetwork,
    found: TrainedNetwork,
    problem: TrainingProblem,
    classes: tuple[int, ...],
    context: FitContext,
    who: str = "processes",
) -> FittedNeural:
    """Return the fitted model of a trained network on the host, with the losses of the training that `found` the epoch.

    `who` names the ranks in its notes.
    """
    return FittedNeural(
        Served(trained.network, context.task, problem.center, problem.scale, tuple(context.targets)).eval(),
        context.task,
        tuple(context.feature_names),
        context.n_classes,
        classes,
        tuple(_describe(trained, found, context.resources, who)),
        history=tuple(asdict(epoch) for epoch in found.progress.epochs),
        targets=tuple(context.targets),
    )


def _only_shard(X: Array, problem: TrainingProblem) -> tuple[TrainingShard, Receipt]:
    n_numbers, given = problem.architecture.n_numbers, problem.given
    rows, receipt = ShardRows(X, problem.target, problem.weight).to_batch(n_numbers)
    others = rows if given is None else ShardRows(given.X, given.y, given.weights).to_batch(n_numbers)[0]
    training, validation = (
        take_rows(of, torch.as_tensor(chosen, device=of.features.device))
        for of, chosen in ((rows, problem.training), (others, problem.validation))
    )
    return TrainingShard(training, validation, sample=training.features), receipt


def refusal(backend: Backend) -> EstimatorRefusal | None:
    """Return the reason that the device of a backend cannot train networks, or None."""
    if backend.name == "cpu" or torch.cuda.is_available():
        return None
    what = f"PyTorch {torch.__version__} finds no CUDA device"
    return EstimatorRefusal(
        what, "install a build for CUDA: pip install 'torch>=2.14' from PyTorch's index for your CUDA"
    )


def _n_processes(context: FitContext) -> int:
    n = context.resources.n_processes
    if context.backend.name == "gpu" and n > torch.cuda.device_count():
        raise ConfigError(
            f"{n} processes need {n} GPUs; there are {torch.cuda.device_count()}",
            where=f"--nproc {n}",
            fix="start fewer processes",
        )
    return n


def open_checkpoint(resources: Resources, is_refit: bool = False) -> Checkpoint | None:
    """Return the checkpoint of a training, or of its repetition on all rows; None without one."""
    path = resources.checkpoint
    if path is None:
        return None
    return Checkpoint(path.with_suffix(".refit.pt") if is_refit else path, resources.resume)


def _describe(trained: TrainedNetwork, found: TrainedNetwork, resources: Resources, who: str) -> Iterator[str]:
    """Yield the notes of a training and of the one that found its number of epochs; `who` names the ranks."""
    progress = found.progress
    spec = found.spec
    n_ranks = found.n_ranks
    best = progress.epochs[progress.best]
    shared = f", shared by {n_ranks} {who}" if n_ranks > 1 else ""
    yield (
        f"{len(progress.epochs)} epochs in batches of {spec.batch_size:,} rows{shared}, {spec.precision}; best epoch "
        f"{progress.best + 1}: loss {best.validation:.5f} on held-out rows, {best.training:.5f} in training"
    )
    if trained is not found:
        n_epochs = len(trained.progress.epochs)
        yield f"trained again on all rows for {count_noun(n_epochs, 'epoch')}"
    if progress.damage:
        yield f"started from scratch, since the checkpoint is corrupt: {progress.damage}"
    elif resources.checkpoint is not None and resources.resume:
        yield f"resumed after epoch {progress.resumed}" if progress.resumed else "started from scratch: no checkpoint"
    if trained is not found and trained.progress.damage:
        yield f"trained again from scratch, since the checkpoint is corrupt: {trained.progress.damage}"
    elif trained is not found and trained.progress.resumed:
        yield f"resumed after epoch {trained.progress.resumed} of the training on all rows"
    micro_batch = min(progress.micro_batch, trained.progress.micro_batch)
    if micro_batch < spec.batch_size // n_ranks:
        yield f"memory was short: batches were split into micro-batches of {micro_batch:,} rows"

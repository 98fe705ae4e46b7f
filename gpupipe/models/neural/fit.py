"""Training of a network on one feature matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
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

    Parameters
    ----------
    model : NeuralSettings
    X : array of float32, shape (n, d), column-major
        On the device of the backend; numbers first, ids last. Handed to PyTorch without a copy, never written to.
    y : array, shape (n,)
        Class codes below ``len(classes)``, or numbers; on the host.
    weights : array of float, shape (n,), optional
    classes : tuple of int
        See `FittedModel`.
    context : FitContext
    threads : int

    Raises
    ------
    DataError
        If there are too few rows.
    ConfigError
        If the ids are not the last columns, there are more processes than rows, or the loss is NaN.
    """
    problem = make_training_problem(model, X.shape[1], y, weights, classes, context)
    n_processes, resources = _n_processes(context), context.resources
    share_memory(context.backend)
    shard, receipt = _only_shard(X, problem)
    n_threads = max(1, threads // max(n_processes, local_world_size()))
    trained = train_shard(
        ShardedProblem(model, problem.architecture, context.task, context.seed, (len(problem.training),)),
        shard, n_threads, partial(open_group, n_processes, n_threads), open_checkpoint(resources),
        resources.safe_point, resources.show_progress,
    )  # fmt: skip
    fitted = fitted_network(trained, problem, classes, context)
    return replace(fitted, backend=context.backend if context.backend.name == "gpu" else None, receipts=(receipt,))


def fitted_network(
    trained: TrainedNetwork,
    problem: TrainingProblem,
    classes: tuple[int, ...],
    context: FitContext,
    who: str = "processes",
) -> FittedNeural:
    """Return the fitted model of a trained network on the host; `who` names the ranks in its notes."""
    return FittedNeural(
        Served(trained.network, context.task, problem.center, problem.scale).eval(),
        context.task,
        tuple(context.feature_names),
        context.n_classes,
        classes,
        tuple(_describe(trained, context.resources, who)),
        history=tuple(asdict(epoch) for epoch in trained.progress.epochs),
    )


def _only_shard(X: Array, problem: TrainingProblem) -> tuple[TrainingShard, Receipt]:
    rows, receipt = ShardRows(X, problem.target, problem.weight).to_batch(problem.architecture.n_numbers)
    training, validation = (
        take_rows(rows, torch.as_tensor(chosen, device=rows.features.device))
        for chosen in (problem.training, problem.validation)
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


def open_checkpoint(resources: Resources) -> Checkpoint | None:
    """Return the checkpoint of a training, or None without one."""
    return None if resources.checkpoint is None else Checkpoint(resources.checkpoint, resources.resume)


def _describe(trained: TrainedNetwork, resources: Resources, who: str) -> Iterator[str]:
    """Yield the notes of a training; `who` names its ranks."""
    progress, spec, n_ranks = trained.progress, trained.spec, trained.n_ranks
    best = progress.epochs[progress.best]
    shared = f", shared by {n_ranks} {who}" if n_ranks > 1 else ""
    yield (
        f"{len(progress.epochs)} epochs in batches of {spec.batch_size:,} rows{shared}, {spec.precision}; best epoch "
        f"{progress.best + 1}: loss {best.validation:.5f} on held-out rows, {best.training:.5f} in training"
    )
    if progress.damage:
        yield f"started from scratch, since the checkpoint is corrupt: {progress.damage}"
    elif resources.checkpoint is not None and resources.resume:
        yield f"resumed after epoch {progress.resumed}" if progress.resumed else "started from scratch: no checkpoint"
    if progress.micro_batch < spec.batch_size // n_ranks:
        yield f"memory was short: batches were split into micro-batches of {progress.micro_batch:,} rows"

"""From a feature matrix to a trained network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

import numpy as np
import torch

from gpupipe.backends.gpu_translation import Refusal
from gpupipe.errors import ConfigError, DataError
from gpupipe.models.base import CLASSIFICATION, Task
from gpupipe.models.neural.checkpoint import FORMAT, Checkpoint, fingerprint
from gpupipe.models.neural.fitted import FittedNeural
from gpupipe.models.neural.job import Job, lead
from gpupipe.models.neural.launched import launched_here
from gpupipe.models.neural.own_pytorch import own_pytorch
from gpupipe.models.neural.processes import sharing
from gpupipe.models.neural.recipe import Recipe
from gpupipe.models.neural.served import Served
from gpupipe.models.neural.settings import Neural
from gpupipe.models.neural.training import Progress
from gpupipe.models.resources import Resources
from gpupipe.tensors.allocator import share_memory
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.handover import hand_over

if TYPE_CHECKING:
    from gpupipe.backends.base import Array, Backend
    from gpupipe.models.fitting import FitContext

LEAST_ROWS = 16  # fewer leave nothing to learn from once some are held out


def fit_network(
    model: Neural,
    X: Array,
    y: Array,
    weights: Array | None,
    classes: tuple[int, ...],
    context: FitContext,
    threads: int,
) -> FittedNeural:
    """Train `model` where the matrix is.

    Parameters
    ----------
    model : Neural
    X : array of float32, shape (n, d), column-major
        Of the backend; numbers first, ids last. Handed to PyTorch without a copy, and never written to.
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
        If the ids are not the last columns, there are more processes than rows, or the loss is no number.
    """
    weighty = np.arange(len(y)) if weights is None else np.flatnonzero(weights)  # the others teach nothing
    if len(weighty) < LEAST_ROWS:
        what = f"a neural model needs {LEAST_ROWS} training rows with a weight; there are {len(weighty)}"
        raise DataError(what, fix="use another model")
    share_memory(context.backend)
    # PyTorch has no memory that is read-only: of such a matrix it gets a copy, and the receipt says so.
    matrix, receipt = hand_over(X, "torch", copy=not getattr(X.flags, "writeable", True))
    device = matrix.device
    n_numbers, cardinalities = _columns(context.categorical, matrix.shape[1])
    training, validation = _held_out(y, weighty, model.validation_fraction, context)
    target, center, scale = _target(y, training, context.task)
    rows = TensorBatch(
        matrix[:, :n_numbers],
        matrix[:, n_numbers:].to(torch.int32) if cardinalities else None,
        torch.as_tensor(target, device=device),
        None if weights is None else torch.as_tensor(np.asarray(weights, np.float32), device=device),
    )
    n_outputs = len(classes) if context.task == "multiclass" else 1
    architecture = model.architecture(n_numbers, cardinalities, n_outputs, len(training))
    n_processes = _n_processes(context)
    each = max(1, threads // max(n_processes, launched_here()))
    with own_pytorch(device, each), sharing(n_processes, device, each) as processes:
        recipe = _recipe(model, context, len(training), processes.size, device)
        indices = (torch.as_tensor(chosen, device=device) for chosen in (training, validation))
        job = Job(architecture, recipe, rows, *indices)
        network, progress = lead(job, processes, _checkpoint(job, processes.size, context))
    if network.categories is not None and rows.ids is not None:
        seen = rows.ids[job.training]
        network.categories.fill_unseen([seen[:, j].bincount(minlength=n) for j, n in enumerate(cardinalities)])
    return FittedNeural(
        Served(network, context.task, center, scale).eval(),
        context.task,
        tuple(context.feature_names),
        context.n_classes,
        classes,
        tuple(_notes(progress, recipe, processes.size, context.resources)),
        backend=context.backend if context.backend.name == "gpu" else None,
        receipts=(receipt,),
        history=tuple(asdict(epoch) for epoch in progress.epochs),
    )


def refusal(backend: Backend) -> Refusal | None:
    """Return why the device of a backend cannot train networks, or None where it can."""
    if backend.name == "cpu" or torch.cuda.is_available():
        return None
    what = f"PyTorch {torch.__version__} sees no CUDA device"
    return Refusal(what, "install a build for CUDA: pip install 'torch>=2.14' from PyTorch's index for your CUDA")


def _n_processes(context: FitContext) -> int:
    n = context.resources.n_processes
    if context.backend.name == "gpu" and n > torch.cuda.device_count():
        raise ConfigError(
            f"{n} processes need {n} GPUs; there are {torch.cuda.device_count()}", where="--nproc", fix="use fewer"
        )
    return n


def _columns(categorical: Mapping[int, int], n_columns: int) -> tuple[int, tuple[int, ...]]:
    """Return how many columns are numbers, and how many ids each of the others has."""
    n_numbers = n_columns - len(categorical)
    if sorted(categorical) != list(range(n_numbers, n_columns)):
        raise ConfigError(
            f"ids are in the columns {sorted(categorical)} of {n_columns}, and a network takes them last",
            where="models",
            fix="use the view 'embedding' of the features",
        )
    return n_numbers, tuple(categorical[j] for j in sorted(categorical))


def _held_out(y: Array, rows: Array, share: float, context: FitContext) -> tuple[Array, Array]:
    """Return which of `rows` to train on and which say when to stop, in order; of each class its share."""
    generator = np.random.default_rng(context.seed)
    strata = y[rows].astype(np.int64) if context.task in CLASSIFICATION else np.zeros(len(rows), np.int64)
    held = np.zeros(len(rows), bool)
    for code in np.unique(strata):
        members = np.flatnonzero(strata == code)
        held[generator.permutation(members)[: int(share * len(members))]] = True
    if not held.any():
        held[generator.integers(len(rows))] = True
    return rows[~held], rows[held]


def _target(y: Array, training: Array, task: Task) -> tuple[Array, float, float]:
    """Return the target as the loss takes it, and what it was centred and scaled by."""
    if task in CLASSIFICATION:
        return np.asarray(y, np.int64), 0.0, 1.0
    center, scale = float(y[training].mean()), float(y[training].std())
    scale = scale if scale > 0 else 1.0
    return ((y - center) / scale).astype(np.float32), center, scale


def _recipe(model: Neural, context: FitContext, n_rows: int, n_processes: int, device: torch.device) -> Recipe:
    if n_processes > n_rows:
        raise ConfigError(f"{n_processes} processes cannot share {n_rows} training rows", fix="use fewer processes")
    each = -(-model.rows_a_batch(n_rows) // n_processes)
    shared = {f.name: getattr(model, f.name) for f in fields(Recipe) if f.name in type(model).model_fields}
    shared |= {"batch_size": min(each, max(1, n_rows // n_processes)) * n_processes}
    shared |= {"precision": _precision(model.precision, device)}
    return Recipe(task=context.task, seed=context.seed, **shared)


def _precision(asked: str, device: torch.device) -> str:
    if asked != "auto":
        return asked
    if device.type == "cpu":
        return "float32"
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"


def _checkpoint(job: Job, n_processes: int, context: FitContext) -> Checkpoint | None:
    resources = context.resources
    if resources.checkpoints is None:
        return None
    versions = {"format": FORMAT, "torch": torch.__version__}
    settings = {"architecture": asdict(job.architecture), "recipe": asdict(job.recipe), "processes": n_processes}
    settings, rows = settings | versions, job.rows
    name = fingerprint(settings, rows.features, rows.ids, rows.target, rows.weight, job.training)
    return Checkpoint(resources.checkpoints, name)


def _notes(progress: Progress, recipe: Recipe, n_processes: int, resources: Resources) -> Iterator[str]:
    best = progress.epochs[progress.best]
    shared = f", shared by {n_processes} processes" if n_processes > 1 else ""
    yield (
        f"{len(progress.epochs)} epochs of batches of {recipe.batch_size:,} rows{shared}, {recipe.precision}; the best "
        f"is epoch {progress.best + 1}: loss {best.validation:.5f} on held-out rows, {best.training:.5f} in training"
    )
    if resources.checkpoints is not None and resources.checkpoints.resume:
        yield f"resumed after epoch {progress.resumed}" if progress.resumed else "nothing to resume: from the start"
    if progress.micro_batch < recipe.batch_size // n_processes:
        yield f"memory was short: batches went through in parts of {progress.micro_batch:,} rows, gradients added up"

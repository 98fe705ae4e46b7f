"""Training settings of one neural fit, resolved to plain values that every rank receives."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

import torch

from gpupipe.errors import ConfigError
from gpupipe.models.neural.settings import NeuralSettings

if TYPE_CHECKING:
    from gpupipe.tasks import Task


@dataclass(frozen=True)
class TrainingSpec:
    """The settings of one training, with no automatic choice left.

    Attributes
    ----------
    task : Task
    seed : int
    batch_size : int
        Rows of a step, of all processes together.
    epochs : int
    learning_rate, weight_decay : float
    schedule : {"cosine", "constant"}
    warmup : float
        Share of all steps over which the learning rate rises.
    patience : int, optional
    gradient_clip : float, optional
        The largest norm of a step's gradient.
    precision : {"float32", "bf16", "fp16"}
    compile : bool
        Whether PyTorch compiles the network.
    """

    task: Task
    seed: int
    batch_size: int
    epochs: int
    learning_rate: float
    weight_decay: float
    schedule: Literal["cosine", "constant"]
    warmup: float
    patience: int | None
    gradient_clip: float | None
    precision: Literal["float32", "bf16", "fp16"]
    compile: bool


def make_training_spec(
    model: NeuralSettings, task: Task, seed: int, n_rows: int, n_processes: int, device: torch.device
) -> TrainingSpec:
    """Return the settings to train `model` on `n_rows` rows by `n_processes` processes, each with such a `device`.

    Raises
    ------
    ConfigError
        If there are more processes than rows.
    """
    if n_processes > n_rows:
        raise ConfigError(f"{n_processes} processes cannot share {n_rows} training rows", fix="use fewer processes")
    each = -(-model.rows_a_batch(n_rows) // n_processes)
    shared = {f.name: getattr(model, f.name) for f in fields(TrainingSpec) if f.name in type(model).model_fields}
    shared |= {"batch_size": min(each, max(1, n_rows // n_processes)) * n_processes}
    shared |= {"precision": _precision(model.precision, device)}
    return TrainingSpec(task=task, seed=seed, **shared)


def _precision(asked: str, device: torch.device) -> str:
    if asked != "auto":
        return asked
    if device.type == "cpu":
        return "float32"
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"

"""How a network is to be trained: plain values that every process of a training is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpupipe.models.base import Task


@dataclass(frozen=True)
class Recipe:
    """The settings of one training, nothing left to be chosen.

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

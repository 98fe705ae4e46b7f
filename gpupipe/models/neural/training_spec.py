"""Settings of one training of a network."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gpupipe.errors import ConfigError
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.tasks import TargetSpec, Task


@dataclass(frozen=True)
class TrainingSpec:
    """The settings of one training, with every "auto" resolved."""

    model: NeuralSettings
    task: Task
    seed: int
    batch_size: int  # rows per step, of all processes together
    precision: str
    # Number of epochs of a training without held-out rows. None: held-out rows choose the best epoch.
    n_epochs: int | None = None
    quantiles: tuple[float, ...] = ()  # levels of the task quantile
    targets: tuple[TargetSpec, ...] = ()  # the targets of the task multioutput


def make_training_spec(
    model: NeuralSettings, task: Task, seed: int, n_rows: int, n_processes: int, device: torch.device
) -> TrainingSpec:
    """Return the settings to train `model` on `n_rows` rows with `n_processes` processes, each on such a `device`.

    Raise ConfigError if there are more processes than rows.
    """
    if n_processes > n_rows:
        raise ConfigError(f"{n_processes} processes exceed the {n_rows} training rows", fix="use fewer processes")
    each = -(-model.rows_per_batch(n_rows) // n_processes)
    batch_size = min(each, max(1, n_rows // n_processes)) * n_processes
    return TrainingSpec(model, task, seed, batch_size, _precision(model.precision, device))


def _precision(setting: str, device: torch.device) -> str:
    if setting != "auto":
        return setting
    if device.type == "cpu":
        return "float32"
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"

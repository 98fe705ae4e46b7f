"""Memory costs of one model of a leaderboard, by its kind: an estimator or a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from gpupipe.backends.gpu.estimators import ESTIMATORS, NO_TWIN
from gpupipe.backends.gpu.least_squares import working_bytes
from gpupipe.backends.gpu.translation import EstimatorRefusal
from gpupipe.config import ModelEntry
from gpupipe.models.estimator import Estimator
from gpupipe.models.fitted.device import MISSING_FIX, missing_columns, missing_text
from gpupipe.models.neural.architecture import BLOCK_BYTES, Architecture
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.pipeline.plan import costs
from gpupipe.pipeline.plan.preview import Preview

DEVICE_PREDICT_ROWS = 1 << 20


@dataclass(frozen=True)
class ModelCosts(ABC):
    """What a model takes beside the matrices, in bytes.

    Attributes
    ----------
    entry : ModelEntry
    seen : Preview
    """

    entry: ModelEntry
    seen: Preview

    @property
    def n_columns(self) -> int:
        """Columns of its matrix."""
        return int(self.seen.matrices[self.entry.params.view].shape[1])

    @abstractmethod
    def libraries(self, on_device: bool) -> dict[str, int]:
        """Return what is loaded on the host to train it."""

    @abstractmethod
    def training(self, n_rows: int) -> int:
        """Return what training takes on the host."""

    @abstractmethod
    def device_training(self, n_rows: int) -> int:
        """Return what training takes on a device, by shapes alone; not measured."""

    @abstractmethod
    def kept(self, n_rows: int) -> int:
        """Return what the trained model keeps on the host, where it grows with the rows."""

    @abstractmethod
    def predicting(self, n_rows: int, on_host: bool) -> tuple[int, int]:
        """Return what predicting takes, and how many rows at a time."""

    @abstractmethod
    def export(self, n_rows: int) -> int:
        """Return what writing the model takes."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Note of the plan on the training."""
        return ()

    @abstractmethod
    def refusal(self) -> EstimatorRefusal | None:
        """Return why a device cannot train it, as far as settings and sample tell, or None."""


class EstimatorCosts(ModelCosts):
    """Of scikit-learn, XGBoost, and what stands for them on a device."""

    @property
    def _name(self) -> str:
        return self.entry.params.estimator_name(self.seen.goal.task)

    def _params(self, n_rows: int) -> dict[str, Any]:
        """Return the keyword arguments that the estimator would be given for so many rows."""
        model, context = self.entry.params, self.seen.context(self.entry.params.view)
        shape = SimpleNamespace(shape=(n_rows, self.n_columns))
        return {**model.estimator_params(context.task), **model.data_params(shape, context)}

    def libraries(self, on_device: bool) -> dict[str, int]:
        """Return those of scikit-learn; on a device they are counted with its own."""
        return {} if on_device else {"libraries of the models": costs.LIBRARIES}

    def training(self, n_rows: int) -> int:
        """Return what was measured."""
        return costs.training_bytes(self._name, self._params(n_rows), n_rows, self.n_columns)

    def device_training(self, n_rows: int) -> int:
        """Return copies of the matrix, or blocks of it."""
        row = ESTIMATORS[self._name]
        if row.by_blocks:
            return working_bytes(n_rows, self.n_columns)
        return costs.device_training_bytes(row.dtype, n_rows, self.n_columns)

    def kept(self, n_rows: int) -> int:
        """Return the trees of a forest."""
        return costs.model_bytes(self._name, self._params(n_rows), n_rows)

    def predicting(self, n_rows: int, on_host: bool) -> tuple[int, int]:
        """Return a block of rows in float64."""
        block = costs.PREDICT_ROWS if on_host else DEVICE_PREDICT_ROWS
        return costs.PREDICT_CELL * self.n_columns * min(n_rows, block), block

    def export(self, n_rows: int) -> int:
        """Return what packing a forest takes."""
        return int(costs.EXPORT_FACTOR * self.kept(n_rows))

    @property
    def notes(self) -> tuple[str, ...]:
        """Unknowns of a user-defined estimator."""
        is_own = isinstance(self.entry.params, Estimator)
        return ("an estimator of your own: what it takes beside two copies of the matrix is not predicted",) * is_own

    def refusal(self) -> EstimatorRefusal | None:
        """Return why a device cannot train it: by its parameters, or by what is missing in the sample.

        Whether the XGBoost that is installed here supports CUDA is not checked: the GPU may be another machine's.
        """
        name, model = self._name, self.entry.params
        if name in NO_TWIN:
            return NO_TWIN[name]
        if refused := ESTIMATORS[name].refusals(self._params(self.seen.n_rows)):
            return refused[0]
        if not model.accepts_missing or ESTIMATORS[name].takes_missing:
            return None
        missing = missing_columns(self.seen.matrices[model.view], tuple(self.seen.features[model.view].names), np)
        return EstimatorRefusal(missing_text(missing), MISSING_FIX) if missing else None


class NetworkCosts(ModelCosts):
    """Of a network that PyTorch trains: the same on the host and on a device, where it runs too."""

    @property
    def _model(self) -> NeuralSettings:
        assert isinstance(self.entry.params, NeuralSettings)
        return self.entry.params

    @property
    def _architecture(self) -> Architecture:
        context = self.seen.context(self._model.view)
        n_outputs = context.n_classes if context.task == "multiclass" else 1
        sizes = tuple(context.categorical.values())
        return self._model.architecture(self.n_columns - len(sizes), sizes, n_outputs, self.seen.n_rows)

    def libraries(self, on_device: bool) -> dict[str, int]:
        """Return PyTorch's; on a device that of its build for the CPU is taken for the other's."""
        own = {} if on_device else {"libraries of the models": costs.LIBRARIES}
        return {**own, "PyTorch": costs.TORCH}

    def training(self, n_rows: int) -> int:
        """Return what was measured, of one process."""
        n_fitted = int(n_rows * (1.0 - self._model.validation_fraction))
        return costs.network_bytes(self._architecture, n_rows, self._model.rows_per_batch(n_fitted))

    def device_training(self, n_rows: int) -> int:
        """Return the same as on the host."""
        return self.training(n_rows)

    def kept(self, n_rows: int) -> int:
        """Return 0: a network does not grow with the rows."""
        return 0

    def predicting(self, n_rows: int, on_host: bool) -> tuple[int, int]:
        """Return what a block of rows takes between input and score."""
        return BLOCK_BYTES, self._architecture.rows_per_block

    def export(self, n_rows: int) -> int:
        """Return what translating the network to ONNX takes."""
        return costs.EXPORT_NETWORK

    def refusal(self) -> None:
        """Return None: whether the PyTorch here knows CUDA is not asked, the GPU may be another machine's."""


def costs_of(entry: ModelEntry, seen: Preview) -> ModelCosts:
    """Return what a model of the leaderboard takes."""
    return (NetworkCosts if isinstance(entry.params, NeuralSettings) else EstimatorCosts)(entry, seen)

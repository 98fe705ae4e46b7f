"""Memory costs of one candidate: an estimator or a neural network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from gpupipe.backends import machine
from gpupipe.backends.gpu.estimators import ESTIMATORS, NO_TWIN, missing_library
from gpupipe.backends.gpu.least_squares import working_bytes
from gpupipe.backends.gpu.translation import EstimatorRefusal
from gpupipe.backends.probe import lacks_nothing
from gpupipe.config import ModelEntry
from gpupipe.models.device.fitted import MISSING_FIX, missing_columns, missing_text
from gpupipe.models.linear.settings import LinearSettings
from gpupipe.models.neural.architecture import BLOCK_BYTES, Architecture
from gpupipe.models.neural.settings import NeuralSettings
from gpupipe.models.neural.training_problem import n_network_outputs
from gpupipe.models.scikit_learn.settings.custom_estimator import CustomEstimator
from gpupipe.plan import costs
from gpupipe.plan.preview import Preview
from gpupipe.training.tuning.memory import tuning_notes

DEVICE_PREDICT_ROWS = 1 << 20


@dataclass(frozen=True)
class ModelCosts(ABC):
    """Memory of a model in addition to the matrices, in bytes."""

    entry: ModelEntry
    seen: Preview

    @property
    def n_columns(self) -> int:
        """Number of columns of its matrix."""
        return int(self.seen.matrices[self.entry.params.view].shape[1])

    @abstractmethod
    def libraries(self, on_device: bool) -> dict[str, int]:
        """Return the libraries loaded on the host for training, with their bytes."""

    @abstractmethod
    def training(self, n_rows: int) -> int:
        """Return the bytes that training needs on the host."""

    @abstractmethod
    def device_training(self, n_rows: int) -> int:
        """Return the bytes that training needs on a device, from array shapes; not measured."""

    @abstractmethod
    def kept(self, n_rows: int) -> int:
        """Return the bytes of the trained model on the host that grow with the rows."""

    @abstractmethod
    def predicting(self, n_rows: int, on_host: bool) -> tuple[int, int]:
        """Return the bytes needed for prediction, and the rows per batch."""

    @abstractmethod
    def export(self, n_rows: int) -> int:
        """Return the bytes needed to export the model."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the plan about the training."""
        return tuple(tuning_notes(self.entry))

    @abstractmethod
    def refusal(self, lacks: Callable[[str], bool] = lacks_nothing) -> EstimatorRefusal | None:
        """Return the reason why a device cannot train it, according to settings and sample, or None.

        `lacks` returns whether a library is missing where the run would be.
        """


class EstimatorCosts(ModelCosts):
    """Memory costs of scikit-learn and XGBoost estimators, and of their equivalents on a device."""

    @property
    def name(self) -> str:
        """Class name in scikit-learn or XGBoost."""
        return self.entry.params.estimator_name(self.seen.goal.each[0].task)

    @property
    def n_margins(self) -> int:
        """Outputs that are learned together: one for each of more than two classes of a target."""
        n_classes = max(goal.n_classes for goal in self.seen.goal.each)
        return n_classes if n_classes > 2 else 1

    def params(self, n_rows: int) -> dict[str, Any]:
        """Return the keyword arguments of the estimator for `n_rows` rows."""
        model, context = self.entry.params, self.seen.context(self.entry.params.view)
        shape = SimpleNamespace(shape=(n_rows, self.n_columns))
        return {**model.estimator_params(context.task), **model.data_params(shape, context)}

    def libraries(self, on_device: bool) -> dict[str, int]:
        """Return scikit-learn's; on a device it is part of the device libraries, and passes over blocks need none."""
        return (
            {}
            if on_device or self._trains_in_passes(self.seen.n_rows)
            else {"libraries of the models": costs.LIBRARIES}
        )

    def training(self, n_rows: int) -> int:
        """Return the measured bytes; with early stopping, those of the training that has copies of its rows."""
        is_read_in_parts = self.entry.params.reads_selected_rows(self.seen.goal.each[0].task)
        return self._training_bytes(n_rows) if is_read_in_parts else self._with_copies(n_rows, self._training_bytes)

    def _training_bytes(self, n_rows: int) -> int:
        model, params = self.entry.params, self.params(n_rows)
        if self._trains_in_passes(n_rows):
            return self.training_in_passes(n_rows)
        found = costs.training_bytes(self.name, params, n_rows, self.n_columns, self.n_margins)
        category = sum(size for library, size in costs.CATEGORY.items() if self.name.startswith(library))
        return found + category * n_rows * len(self.seen.context(model.view).categorical)

    def _trains_in_passes(self, n_rows: int) -> bool:
        model = self.entry.params
        return isinstance(model, LinearSettings) and model.trains_in_passes(self.params(n_rows))

    def training_in_passes(self, n_rows: int) -> int:
        """Return the bytes of a linear model that is trained in passes over blocks of rows."""
        return costs.pass_bytes(n_rows, self.n_columns, self.n_margins, machine.n_threads())

    def device_training(self, n_rows: int) -> int:
        """Return the bytes of copies of the matrix, or of blocks of it."""
        row = ESTIMATORS[self.name]
        if row.by_blocks:
            return working_bytes(n_rows, self.n_columns)
        return self._with_copies(n_rows, lambda n: costs.device_training_bytes(row.dtype, n, self.n_columns))

    def _with_copies(self, n_rows: int, of_rows: Callable[[int], int]) -> int:
        """Return the larger need of the two trainings of a model that stops early.

        The first one has copies of the rows that it is trained on, and of those held out.
        """
        share = self._held_out_share(n_rows)
        if share is None:
            return of_rows(n_rows)
        return max(of_rows(n_rows), 4 * n_rows * self.n_columns + of_rows(int(n_rows * (1.0 - share))))

    def _held_out_share(self, n_rows: int) -> float | None:
        """Return the share of the rows held out for early stopping; None if no row is."""
        share: Any = getattr(self.entry.params, "validation_fraction", None)
        if share is None or not self.entry.params.stops_early(n_rows):
            return None
        return float(share) if share < 1 else min(1.0, share / n_rows)

    def kept(self, n_rows: int) -> int:
        """Return the bytes of the trees of a forest, of each target."""
        return costs.model_bytes(self.name, self.params(n_rows), n_rows, self.n_margins) * len(self.seen.goal.each)

    def predicting(self, n_rows: int, on_host: bool) -> tuple[int, int]:
        """Return the bytes of a float64 batch, and its rows."""
        block = costs.PREDICT_ROWS if on_host else DEVICE_PREDICT_ROWS
        return costs.PREDICT_CELL * self.n_columns * min(n_rows, block), block

    def export(self, n_rows: int) -> int:
        """Return the bytes needed to pack a forest."""
        return int(costs.EXPORT_FACTOR * self.kept(n_rows))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about a search, a custom estimator, and a model that is trained twice."""
        is_custom = isinstance(self.entry.params, CustomEstimator)
        found = ("custom estimator: its memory is assumed to be two copies of the matrix",) * is_custom
        if self._held_out_share(self.seen.n_rows) is not None:
            found += (f"{self.entry.label} is trained twice: with early stopping, then on all rows",)
        if (targets := self.seen.goal.targets) and not self.entry.params.learns_jointly:
            found += (f"{self.entry.label} is trained for each of the {len(targets)} targets, one after the other",)
        if levels := self.seen.goal.quantiles:
            found += (f"{self.entry.label} is trained for each of the {len(levels)} quantiles, one after the other",)
        return *super().notes, *found

    def refusal(self, lacks: Callable[[str], bool] = lacks_nothing) -> EstimatorRefusal | None:
        """Return the reason why a device cannot train it: library, parameters, or nulls in the sample; or None.

        CUDA support of the installed XGBoost is not checked, because the plan may be for another machine.
        """
        name, model = self.name, self.entry.params
        if name in NO_TWIN:
            return NO_TWIN[name]
        if absent := missing_library(ESTIMATORS[name], lacks):
            return absent
        if refused := ESTIMATORS[name].refusals(self.params(self.seen.n_rows)):
            return refused[0]
        if not model.accepts_missing or ESTIMATORS[name].takes_missing:
            return None
        missing = missing_columns(self.seen.matrices[model.view], tuple(self.seen.features[model.view].names), np)
        return EstimatorRefusal(missing_text(missing), MISSING_FIX) if missing else None


class NetworkCosts(ModelCosts):
    """Memory costs of a network trained by PyTorch, the same on the host and on a device."""

    @property
    def settings(self) -> NeuralSettings:
        """Settings of the network."""
        assert isinstance(self.entry.params, NeuralSettings)
        return self.entry.params

    @property
    def architecture(self) -> Architecture:
        """Shape of the network."""
        context = self.seen.context(self.settings.view)
        n_outputs = n_network_outputs(context, context.n_classes)
        sizes = tuple(context.categorical.values())
        return self.settings.architecture(self.n_columns - len(sizes), sizes, n_outputs, self.seen.n_rows)

    def libraries(self, on_device: bool) -> dict[str, int]:
        """Return PyTorch's, measured for the CPU build and assumed for the CUDA build."""
        return {"PyTorch": costs.TORCH}

    def training(self, n_rows: int) -> int:
        """Return the measured bytes of one process."""
        n_fitted = int(n_rows * (1.0 - self.settings.validation_fraction))
        return costs.network_bytes(self.architecture, n_rows, self.settings.rows_per_batch(n_fitted))

    def device_training(self, n_rows: int) -> int:
        """Return the same bytes as on the host."""
        return self.training(n_rows)

    def kept(self, n_rows: int) -> int:
        """Return 0, because the size of a network does not depend on the rows."""
        return 0

    def predicting(self, n_rows: int, on_host: bool) -> tuple[int, int]:
        """Return the bytes of the activations of a batch, and its rows."""
        return BLOCK_BYTES, self.architecture.rows_per_block

    def export(self, n_rows: int) -> int:
        """Return the bytes needed to write the network as ONNX."""
        return costs.EXPORT_NETWORK

    def refusal(self, lacks: Callable[[str], bool] = lacks_nothing) -> None:
        """Return None; CUDA support of PyTorch is not checked, because the plan may be for another machine."""


def costs_of_one(entry: ModelEntry, seen: Preview) -> ModelCosts:
    """Return the memory costs of a model that is not an ensemble."""
    return (NetworkCosts if isinstance(entry.params, NeuralSettings) else EstimatorCosts)(entry, seen)

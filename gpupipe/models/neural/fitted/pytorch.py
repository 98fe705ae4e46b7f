"""Fitted network in PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpupipe.models.fitted.base import MATRIX_PRODUCT_SECONDS, FittedModel
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.neural.files import architecture
from gpupipe.models.neural.files import onnx as onnx_file
from gpupipe.models.neural.files.weights import write_weights
from gpupipe.models.neural.fitted import onnx_runtime
from gpupipe.tensors.exchange import from_dlpack
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.receipt import Receipt

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.models.contributions.base import Explainer, Scale
    from gpupipe.typing import Array, HostArray


NO_ONNX = "no ONNX file: written without one, to save time"


@dataclass(frozen=True, repr=False)
class FittedNeural(FittedModel):
    """A network, stored as safetensors and JSON, and as ONNX if the packages for that are installed.

    It computes in float32 with PyTorch's threads; probabilities are float64. The prediction of a row depends on the
    other rows of its block by rounding only.

    `estimator` is a `Served` network in evaluation mode. `backend` is that of the device of the network; None on the
    host.
    """

    library = "torch"
    file = "estimator.safetensors"

    backend: Backend | None = None
    receipts: tuple[Receipt, ...] = ()
    history: tuple[Mapping[str, float], ...] = ()

    @property
    def n_outputs(self) -> int:
        return self.estimator.architecture.n_outputs if self.task == "quantile" else super().n_outputs

    @property
    def row_seconds(self) -> float:
        n_weights = sum(weights.numel() for weights in self.estimator.parameters())
        return MATRIX_PRODUCT_SECONDS * self.estimator.architecture.members * n_weights

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, float32, shape (n, d), on the device of the network, where the predictions stay."""
        step = self.estimator.architecture.rows_per_block
        matrix = X if self.backend is None else hand_over(self.backend.to_device(X), "torch")[0]
        xp = np if self.backend is None else self.backend.xp
        score = xp.empty((X.shape[0], self.estimator.architecture.n_outputs))
        with torch.inference_mode():
            for low in range(0, X.shape[0], step):
                rows = slice(low, low + step)
                score[rows] = self._scores(matrix[rows])
        return self._of_scores(score, xp)

    def _scores(self, rows: Array) -> Array:
        if self.backend is not None:
            return from_dlpack(self.estimator(rows))
        # A copy: `X` may be read-only, which PyTorch does not support, or have any layout.
        return self.estimator(_own_block(rows)).numpy()

    def portable(self) -> FittedModel:
        """Return the model on the CPU; the copy is made once."""
        return self if self.backend is None else self._on_host

    @cached_property
    def _on_host(self) -> FittedModel:
        return replace(self, estimator=copy.deepcopy(self.estimator).cpu(), backend=None)

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return expected gradients, computed on the device of the network."""
        from gpupipe.models.neural.fitted.contributions import NetworkExplainer

        scale: Scale = "log-odds" if self.has_classes else "score"
        return NetworkExplainer(self.estimator, background(), scale, self.n_margins)

    def importances(self) -> None:
        """Return None: networks have no importances."""

    def save(self, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
        """Write the network on the CPU; see `FittedModel.save`.

        ``onnx`` in the description has the largest difference of the ONNX file from the network, or the reason that
        there is no file. Raise GpupipeError if the ONNX file computes other predictions than the network.
        """
        description = super().save(folder, quick=quick)
        if self.backend is not None:  # already written by the copy on the host
            return description
        folder = Path(folder)
        architecture.write_architecture(folder / architecture.NAME, self.estimator.architecture, self.task)
        description["files"].append(architecture.NAME)
        obstacle = NO_ONNX if quick else onnx_file.find_obstacle(self.estimator)
        if obstacle is None:
            description["onnx"] = onnx_file.write_onnx(self.estimator, folder / onnx_runtime.NAME)
            description["files"].append(onnx_runtime.NAME)
        else:
            description["onnx"] = {"absent": obstacle}
        return description

    def _write(self, path: Path) -> None:
        write_weights(self.estimator, path)


def _own_block(rows: Array) -> Tensor:
    return torch.from_numpy(np.array(rows, np.float32, order="C"))

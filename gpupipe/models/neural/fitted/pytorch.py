"""A trained network of PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gpupipe.models.fitted.base import FittedModel, Prediction
from gpupipe.models.neural.files import architecture
from gpupipe.models.neural.files import onnx as onnx_file
from gpupipe.models.neural.files.weights import write_weights
from gpupipe.models.neural.fitted import onnx_runtime
from gpupipe.tensors.exchange import from_dlpack
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.receipt import Receipt

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.typing import Array


@dataclass(frozen=True, repr=False)
class FittedNeural(FittedModel):
    """A network; kept as safetensors and JSON, and as ONNX where the packages for that are installed.

    It computes in float32 with the threads that PyTorch has; probabilities are of float64. In another block of rows a
    row's prediction differs by rounding.

    Attributes
    ----------
    estimator : Served
        In evaluation mode.
    backend : Backend, optional
        Of the device that the network is on; None on the host.
    receipts : tuple of Receipt
        Of the matrices that PyTorch was handed in training.
    history : tuple of mapping
        What each epoch of the training came to.
    """

    library = "torch"
    file = "estimator.safetensors"

    backend: Backend | None = None
    receipts: tuple[Receipt, ...] = ()
    history: tuple[Mapping[str, float], ...] = ()

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, float32, shape (n, d), where the network is; so are the predictions."""
        step = self.estimator.architecture.rows_a_block
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
        # A block of its own: `X` may be read-only, which PyTorch's tensors cannot be, or lie in any order.
        return self.estimator(_own_block(rows)).numpy()

    def portable(self) -> FittedModel:
        """Return the model on the CPU; copied once."""
        return self if self.backend is None else self._on_host

    @cached_property
    def _on_host(self) -> FittedModel:
        return replace(self, estimator=copy.deepcopy(self.estimator).cpu(), backend=None)

    def importances(self) -> None:
        """Return None: a network has none of its own."""

    def save(self, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
        """Write the network on the CPU; see `FittedModel.save`.

        ``onnx`` of the description says how far the ONNX file is from the network, or why there is none.

        Raises
        ------
        GpupipeError
            If the ONNX file does not compute what the network computes.
        """
        description = super().save(folder, quick=quick)
        if self.backend is not None:  # the copy on the host has written itself
            return description
        folder = Path(folder)
        architecture.write_architecture(folder / architecture.NAME, self.estimator.architecture, self.task)
        description["files"].append(architecture.NAME)
        find_obstacle = onnx_file.find_obstacle(self.estimator)
        if find_obstacle is None:
            description["onnx"] = onnx_file.write_onnx(self.estimator, folder / onnx_runtime.NAME)
            description["files"].append(onnx_runtime.NAME)
        else:
            description["onnx"] = {"absent": find_obstacle}
        return description

    def _write(self, path: Path) -> None:
        write_weights(self.estimator, path)


def _own_block(rows: Array) -> Tensor:
    return torch.from_numpy(np.array(rows, np.float32, order="C"))

"""Fitted network on a machine without PyTorch, computed by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.fitted.onnx_runtime import NAME, scores

if TYPE_CHECKING:
    from gpupipe.models.contributions.base import Explainer, Scale
    from gpupipe.typing import Array, HostArray

WITHOUT_TORCH = "PyTorch is not installed: ONNX Runtime computes the network"


@dataclass(frozen=True, repr=False)
class FittedOnnx(FittedModel):
    """A network computed by ONNX Runtime; its predictions equal those of PyTorch except for rounding.

    `estimator` is an ``onnxruntime.InferenceSession``.
    """

    library = "onnxruntime"
    file = NAME

    notes: tuple[str, ...] = (WITHOUT_TORCH,)
    architecture: Architecture | None = None

    @property
    def n_outputs(self) -> int:
        assert self.architecture is not None
        return self.architecture.n_outputs if self.task == "quantile" else super().n_outputs

    def predict(self, X: Array) -> Prediction:
        """Predict the rows of `X`, float32, shape (n, d), in blocks."""
        import numpy as np

        assert self.architecture is not None
        step = self.architecture.rows_per_block
        n_outputs = self.architecture.n_outputs
        score = np.empty((X.shape[0], n_outputs))
        for low in range(0, X.shape[0], step):
            score[low : low + step] = self.scores(X[low : low + step])
        return self._of_scores(score)

    def scores(self, rows: Array) -> Array:
        """Return the scores of rows, float32, shape (n, d)."""
        assert self.architecture is not None
        return scores(self.estimator, rows, self.architecture.n_outputs)

    def explainer(self, background: Callable[[], HostArray]) -> Explainer:
        """Return the contributions to the scores, from predictions of mixed rows: there are no gradients."""
        import numpy as np

        from gpupipe.models.contributions.permutations import OutputExplainer

        def outputs(rows: HostArray) -> HostArray:
            return np.asarray(self.scores(rows), np.float64)

        scale: Scale = "log-odds" if self.has_classes else "score"
        return OutputExplainer(outputs, background(), scale, self.n_margins, self.row_seconds)

    def importances(self) -> None:
        """Return None: networks have no importances."""

    def _write(self, path: Path) -> None:
        raise ConfigError(
            "writing a network needs PyTorch, which is not installed",
            where=str(path),
            fix="pip install 'gpupipe[torch]'",
        )

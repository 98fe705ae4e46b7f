"""Estimators of single rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpupipe.models.fitted.prediction import Prediction
    from gpupipe.typing import Array

LIBRARIES = {"onnxruntime": "ONNX Runtime", "torch": "PyTorch", "xgboost": "XGBoost"}


@dataclass(frozen=True)
class RowEstimator:
    """A function that predicts one row, or a few hundred, without the overhead of large batches. It is thread-safe.

    Its predictions equal those of `FittedModel.predict` to the last bit, except for networks, estimators of users and
    plug-ins, whose libraries may add in another order.
    """

    name: str  # what computes the prediction: "compiled trees", "XGBoost"
    # Returns the `Prediction` of an array of float32, shape (n, d), with any strides.
    predict: Callable[[Array], Prediction]

    def __call__(self, X: Array) -> Prediction:
        """Predict the rows of `X`."""
        return self.predict(X)

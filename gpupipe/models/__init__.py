"""Models: parameters, training and prediction. Importing this package imports no numeric library."""

from __future__ import annotations

from gpupipe.models.base import MODELS, ModelSettings
from gpupipe.models.context import ONE_PROCESS, FitContext, Resources
from gpupipe.models.device.training import early_refusal, library_refusal
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.models.fitted.row_estimator import RowEstimator
from gpupipe.models.load import load_fitted, predict_loaded
from gpupipe.models.training import fit

__all__ = [
    "MODELS",
    "ONE_PROCESS",
    "FitContext",
    "FittedModel",
    "ModelSettings",
    "Prediction",
    "Resources",
    "RowEstimator",
    "early_refusal",
    "fit",
    "library_refusal",
    "load_fitted",
    "predict_loaded",
]

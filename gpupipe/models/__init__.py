"""Models: their parameters, training and prediction. Importing this package imports no library that computes."""

from __future__ import annotations

# One line for each family: importing it registers its models. The order is the order of listings.
from gpupipe.models import linear, forest, boosting, neighbors, bayes, svm, neural, cluster, decomposition, estimator  # noqa: F401  # isort: skip
from gpupipe.models.base import MODELS, ModelSettings
from gpupipe.models.context import ONE_PROCESS, FitContext, Resources
from gpupipe.models.device_training import early_refusal
from gpupipe.models.files.load import load_fitted, predict_loaded
from gpupipe.models.fitted.base import FittedModel, Prediction
from gpupipe.models.training import fit

__all__ = [
    "MODELS",
    "ONE_PROCESS",
    "FitContext",
    "FittedModel",
    "ModelSettings",
    "Prediction",
    "Resources",
    "early_refusal",
    "fit",
    "load_fitted",
    "predict_loaded",
]

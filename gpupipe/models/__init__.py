"""Models: their parameters, training and prediction. Importing this package imports no library that computes."""

from __future__ import annotations

# One line for each family: importing it registers its models. The order is the order of listings.
from gpupipe.models import linear, forest, boosting, neighbors, bayes, svm, neural, cluster, decomposition  # noqa: F401  # isort: skip
from gpupipe.models.base import CLASSIFICATION, MODELS, Model, Task, View
from gpupipe.models.device_fitting import early_refusal
from gpupipe.models.fitted import FittedModel, Prediction, load_fitted
from gpupipe.models.fitting import FitContext, fit
from gpupipe.models.resources import ONE_PROCESS, Resources

__all__ = [
    "CLASSIFICATION",
    "MODELS",
    "ONE_PROCESS",
    "FitContext",
    "FittedModel",
    "Model",
    "Prediction",
    "Resources",
    "Task",
    "View",
    "early_refusal",
    "fit",
    "load_fitted",
]

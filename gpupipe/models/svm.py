"""Support vector machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from gpupipe.models.base import MODELS, ClassWeight, ModelSettings, Positive, PositiveInt
from gpupipe.tasks import CLASSIFICATION, Task

if TYPE_CHECKING:
    from gpupipe.models.context import FitContext

CALIBRATION_FOLDS = 3


@MODELS.register("linear_svc")
class LinearSVC(ModelSettings):
    """A linear support vector machine with probabilities.

    The machine itself has margins only. They become probabilities through a sigmoid per class, fitted on margins of
    rows held out in 3 folds (scikit-learn's `CalibratedClassifierCV`); the machine that serves is fitted on all rows.
    Training costs four fits. Each class needs 3 rows.
    """

    tasks = CLASSIFICATION

    penalty: Literal["l1", "l2"] = "l2"
    loss: Literal["hinge", "squared_hinge"] = "squared_hinge"
    dual: Literal["auto"] | bool = "auto"
    tol: Positive = 1e-4
    C: Positive = 1.0
    multi_class: Literal["ovr", "crammer_singer"] = "ovr"
    fit_intercept: bool = True
    intercept_scaling: Positive = 1
    class_weight: ClassWeight = None
    max_iter: PositiveInt = 1000

    def estimator_name(self, task: Task) -> str:
        return "LinearSVC"

    def blas_threads(self, n_features: int, n_threads: int) -> int:
        return 1  # liblinear calls vector operations only

    def build(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        machine = super().build(context, params)
        calibration = {"estimator": machine, "method": "sigmoid", "cv": CALIBRATION_FOLDS, "ensemble": False}
        return context.backend.estimator("CalibratedClassifierCV", calibration)

"""Support vector machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from gpupipe.models.base import MODELS, ClassWeight, ModelSettings, Positive, PositiveInt
from gpupipe.models.contradictions import Contradiction
from gpupipe.tasks import CLASSIFICATION, Task

if TYPE_CHECKING:
    from gpupipe.models.context import FitContext

CALIBRATION_FOLDS = 3


@MODELS.register("linear_svc")
class LinearSVC(ModelSettings):
    """Linear support vector classifier with probabilities.

    Runs scikit-learn's ``LinearSVC`` on the CPU only: cuML's has no probabilities. It reads the dense view. The
    classifier itself returns margins; one sigmoid per class, fitted on the margins of rows held out in 3 folds
    (scikit-learn's ``CalibratedClassifierCV``), maps them to probabilities. The exported classifier is fitted on all
    rows. Training takes four fits, and each class needs at least 3 rows. All defaults are scikit-learn's.
    """

    tasks = CLASSIFICATION
    uses_blas_threads = False  # liblinear calls vector operations only
    least_class_rows = CALIBRATION_FOLDS
    contradictions = (
        Contradiction("penalty", ("l1",), "loss", ("squared_hinge",), "l2"),
        Contradiction("penalty", ("l1",), "dual", ("auto", False), "l2"),
        Contradiction("loss", ("hinge",), "dual", ("auto", True), "squared_hinge"),
    )

    penalty: Literal["l1", "l2"] = Field("l2", description="Norm of the penalty. l1 gives sparse coefficients.")
    loss: Literal["hinge", "squared_hinge"] = Field("squared_hinge", description="Loss of a row, by its margin.")
    dual: Literal["auto"] | bool = Field(
        "auto", description="Solve the dual problem. auto: chosen by the shape of the matrix, the loss and the penalty."
    )
    tol: Positive = Field(1e-4, description="Tolerance at which the solver stops.")
    C: Positive = Field(
        1.0, description="Inverse of the strength of the penalty: a smaller value is a stronger penalty."
    )
    multi_class: Literal["ovr", "crammer_singer"] = Field(
        "ovr", description="More than two classes. ovr: one classifier per class. crammer_singer: one joint problem."
    )
    fit_intercept: bool = Field(True, description="Fit an intercept.")
    intercept_scaling: Positive = Field(
        1,
        description="Value of the constant feature that stands for the intercept. The penalty applies to it too; a "
        "larger value weakens that.",
    )
    class_weight: ClassWeight = None
    max_iter: PositiveInt = Field(1000, description="Maximum number of iterations of one fit.")

    def estimator_name(self, task: Task) -> str:
        return "LinearSVC"

    def build(self, context: FitContext, params: Mapping[str, Any]) -> Any:
        machine = super().build(context, params)
        calibration = {"estimator": machine, "method": "sigmoid", "cv": CALIBRATION_FOLDS, "ensemble": False}
        return context.backend.estimator("CalibratedClassifierCV", calibration)

"""Naive Bayes."""

from __future__ import annotations

from pydantic import Field

from gpupipe.models.base import MODELS, ClassWeight, ModelSettings, NonNegative
from gpupipe.tasks import CLASSIFICATION, Task


@MODELS.register("gaussian_nb")
class GaussianNB(ModelSettings):
    """Gaussian naive Bayes classifier: each feature is normally distributed within a class.

    Runs scikit-learn's ``GaussianNB`` on the CPU and cuML's on the GPU. It reads the dense view. Class weights change
    the priors that it learns. All defaults are scikit-learn's.
    """

    tasks = CLASSIFICATION
    takes_seed = False

    priors: list[NonNegative] | None = Field(
        None,
        description="Prior probability of each class, in the order of the class labels; they sum to 1. null: the "
        "shares of the classes in the training rows.",
    )
    var_smoothing: NonNegative = Field(
        1e-9,
        description="Part of the largest variance of any feature that is added to all variances, for numerical "
        "stability.",
    )
    class_weight: ClassWeight = None

    def estimator_name(self, task: Task) -> str:
        return "GaussianNB"

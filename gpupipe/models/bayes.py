"""Naive Bayes."""

from __future__ import annotations

from gpupipe.models.base import MODELS, ClassWeight, ModelSettings, NonNegative
from gpupipe.tasks import CLASSIFICATION, Task


@MODELS.register("gaussian_nb")
class GaussianNB(ModelSettings):
    """Gaussian naive Bayes; class weights act on the priors that it learns."""

    tasks = CLASSIFICATION
    takes_seed = False

    priors: list[NonNegative] | None = None
    var_smoothing: NonNegative = 1e-9
    class_weight: ClassWeight = None

    def estimator_name(self, task: Task) -> str:
        return "GaussianNB"

"""Embeddings by matrix decomposition."""

from __future__ import annotations

from typing import Literal

from gpupipe.models.base import MODELS, ModelSettings, NonNegative, NonNegativeInt, PositiveInt, Share
from gpupipe.tasks import Task


@MODELS.register("pca")
class PCA(ModelSettings):
    """Principal components; a prediction is the row in their coordinates."""

    tasks = frozenset({"embedding"})
    takes_sample_weight = False

    n_components: PositiveInt | Share | Literal["mle"] | None = None
    whiten: bool = False
    svd_solver: Literal["auto", "full", "covariance_eigh", "arpack", "randomized"] = "auto"
    tol: NonNegative = 0.0
    iterated_power: Literal["auto"] | NonNegativeInt = "auto"
    n_oversamples: PositiveInt = 10
    power_iteration_normalizer: Literal["auto", "QR", "LU", "none"] = "auto"

    def estimator_name(self, task: Task) -> str:
        return "PCA"

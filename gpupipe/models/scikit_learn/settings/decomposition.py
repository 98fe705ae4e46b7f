"""Embeddings by matrix decomposition."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupipe.models.base import MODELS, ModelSettings, NonNegative, NonNegativeInt, PositiveInt, Share
from gpupipe.models.contradictions import Contradiction
from gpupipe.tasks import Task


@MODELS.register("pca")
class PCA(ModelSettings):
    """Principal component analysis; a prediction is the row in the coordinates of the components.

    Runs scikit-learn's ``PCA`` on the CPU and cuML's on the GPU, which always uses the full solver. It reads the dense
    view and takes no sample weights. All defaults are scikit-learn's.
    """

    tasks = frozenset({"embedding"})
    takes_sample_weight = False
    contradictions = (
        Contradiction("svd_solver", ("arpack", "randomized"), "n_components", lambda n: n != "mle" and (n or 1) >= 1),
    )

    n_components: PositiveInt | Share | Literal["mle"] | None = Field(
        None,
        description="Number of components, or the fraction of the variance that they must explain. mle: Minka's "
        "estimate. null: all components. On the GPU a number, or null.",
    )
    whiten: bool = Field(False, description="Scale the components to unit variance.")
    svd_solver: Literal["auto", "full", "covariance_eigh", "arpack", "randomized"] = Field(
        "auto",
        description="Algorithm. auto: chosen by the shape of the matrix and n_components. full: exact, on the matrix. "
        "covariance_eigh: exact, on the covariance matrix, fast for many rows and few features. arpack: truncated. "
        "randomized: approximate. The GPU always uses full.",
    )
    tol: NonNegative = Field(0.0, description="Tolerance of the singular values; for arpack.")
    iterated_power: Literal["auto"] | NonNegativeInt = Field(
        "auto", description="Number of power iterations; for randomized."
    )
    n_oversamples: PositiveInt = Field(
        10, description="Number of extra random vectors, which improve the accuracy; for randomized."
    )
    power_iteration_normalizer: Literal["auto", "QR", "LU", "none"] = Field(
        "auto", description="Normalization between power iterations; for randomized."
    )

    def estimator_name(self, task: Task) -> str:
        return "PCA"

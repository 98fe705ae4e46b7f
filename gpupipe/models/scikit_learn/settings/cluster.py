"""Clustering."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpupipe.models.base import MODELS, ModelSettings, NonNegative, PositiveInt
from gpupipe.tasks import Task


@MODELS.register("kmeans")
class KMeans(ModelSettings):
    """K-means clustering; a prediction is the cluster label and the distance to the center of that cluster.

    Runs scikit-learn's ``KMeans`` on the CPU and cuML's on the GPU, where the first centers are drawn differently and
    ``tol`` is not scaled by the variance of the features: the clusters may differ. It reads the dense view. All
    defaults are scikit-learn's.
    """

    tasks = frozenset({"clustering"})

    n_clusters: PositiveInt = Field(8, description="Number of clusters.")
    init: Literal["k-means++", "random"] = Field(
        "k-means++",
        description="Choice of the first centers. k-means++: rows that are far apart, with higher probability. random: "
        "random rows.",
    )
    n_init: Literal["auto"] | PositiveInt = Field(
        "auto",
        description="Number of runs with other first centers; the best run counts. auto: 1 for k-means++, 10 for "
        "random.",
    )
    max_iter: PositiveInt = Field(300, description="Maximum number of iterations of one run.")
    tol: NonNegative = Field(
        1e-4,
        description="A run stops when the centers move by less than this between two iterations, relative to the "
        "variance of the features.",
    )
    algorithm: Literal["lloyd", "elkan"] = Field(
        "lloyd",
        description="Algorithm. elkan saves distance computations by the triangle inequality and needs more memory; "
        "both find the same clusters. Ignored on the GPU.",
    )

    def estimator_name(self, task: Task) -> str:
        return "KMeans"

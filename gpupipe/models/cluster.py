"""Clustering."""

from __future__ import annotations

from typing import Literal

from gpupipe.models.base import MODELS, ModelSettings, NonNegative, PositiveInt
from gpupipe.tasks import Task


@MODELS.register("kmeans")
class KMeans(ModelSettings):
    """K-means; a prediction is the label and the distance to that cluster's centre."""

    tasks = frozenset({"clustering"})

    n_clusters: PositiveInt = 8
    init: Literal["k-means++", "random"] = "k-means++"
    n_init: Literal["auto"] | PositiveInt = "auto"
    max_iter: PositiveInt = 300
    tol: NonNegative = 1e-4
    algorithm: Literal["lloyd", "elkan"] = "lloyd"

    def estimator_name(self, task: Task) -> str:
        return "KMeans"

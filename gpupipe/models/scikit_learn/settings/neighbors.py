"""Nearest neighbors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from gpupipe.models.base import MODELS, Invariance, ModelSettings, Positive, PositiveInt
from gpupipe.models.contradictions import Contradiction
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task

if TYPE_CHECKING:
    from gpupipe.typing import Array


@MODELS.register("knn")
class KNN(ModelSettings):
    """K nearest neighbors: a classifier or a regressor, by the task.

    Runs scikit-learn's ``KNeighborsClassifier`` or ``KNeighborsRegressor`` on the CPU and cuML's on the GPU, which
    compares every pair of rows. If the CPU compares every pair too, then of equally near rows the first in the training
    table count. It reads the dense view. The exported model contains all training rows: consider its
    size, and the privacy of the data. There are no class weights and no sample weights, as in scikit-learn. All
    defaults are scikit-learn's.
    """

    tasks = CLASSIFICATION | REGRESSION
    takes_seed = False
    takes_threads = True
    takes_sample_weight = False
    contradictions = (
        Contradiction("metric", ("cosine",), "algorithm", ("auto", "brute"), "minkowski"),
        Contradiction(
            "metric", ("canberra", "braycurtis", "hamming"), "algorithm", ("auto", "ball_tree", "brute"), "minkowski"
        ),
        Contradiction("algorithm", ("ball_tree", "kd_tree"), "p", lambda p: p >= 1, "auto"),
    )

    n_neighbors: PositiveInt = Field(5, description="Number of neighbors.")
    weights: Literal["uniform", "distance"] = Field(
        "uniform", description="Weight of a neighbor. uniform: all equal. distance: the inverse of the distance."
    )
    algorithm: Literal["auto", "ball_tree", "kd_tree", "brute"] = Field(
        "auto",
        description="Search algorithm; all find the same neighbors. auto: chosen by the data. The GPU uses brute.",
    )
    leaf_size: PositiveInt = Field(
        30, description="Rows in a leaf of ball_tree or kd_tree; affects speed and memory only. Ignored on the GPU."
    )
    p: Positive = Field(2, description="Power of the Minkowski distance: 1 is manhattan, 2 is euclidean.")
    metric: Literal[
        "minkowski", "euclidean", "manhattan", "chebyshev", "cosine", "canberra", "braycurtis", "hamming"
    ] = Field("minkowski", description="Distance between rows. braycurtis and hamming are available on the CPU only.")

    def target_invariance(self, task: Task) -> Invariance:
        return "affine"

    def estimator_name(self, task: Task) -> str:
        return "KNeighborsClassifier" if task in CLASSIFICATION else "KNeighborsRegressor"

    def matrix(self, X: Array, params: Mapping[str, Any]) -> Array:
        # Distances read whole rows, so row-major is faster here and at every prediction.
        return X.astype("float32", order="C", copy=False)

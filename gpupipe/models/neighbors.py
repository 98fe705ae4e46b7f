"""Nearest neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from gpupipe.models.base import MODELS, ModelSettings, Positive, PositiveInt
from gpupipe.tasks import CLASSIFICATION, SUPERVISED, Task

if TYPE_CHECKING:
    from gpupipe.typing import Array


@MODELS.register("knn")
class KNN(ModelSettings):
    """K nearest neighbours, classifier or regressor by the task.

    It learns the training rows by heart: the exported model holds all of them (think of size and of privacy), and it
    has no class weights, as in scikit-learn.
    """

    tasks = SUPERVISED
    takes_seed = False
    takes_threads = True
    takes_sample_weight = False

    n_neighbors: PositiveInt = 5
    weights: Literal["uniform", "distance"] = "uniform"
    algorithm: Literal["auto", "ball_tree", "kd_tree", "brute"] = "auto"
    leaf_size: PositiveInt = 30
    p: Positive = 2
    metric: Literal[
        "minkowski", "euclidean", "manhattan", "chebyshev", "cosine", "canberra", "braycurtis", "hamming"
    ] = "minkowski"

    def estimator_name(self, task: Task) -> str:
        return "KNeighborsClassifier" if task in CLASSIFICATION else "KNeighborsRegressor"

    def matrix(self, X: Array, params: Mapping[str, Any]) -> Array:
        # Distances read whole rows, again for every prediction.
        return X.astype("float32", order="C", copy=False)

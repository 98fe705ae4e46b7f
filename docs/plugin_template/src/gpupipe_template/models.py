"""Model: the class whose mean is nearest."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from gpupipe.plugins import PluginModel


class CentroidClassifier:
    """Classifier by the distance to the mean of each class, with scikit-learn's interface."""

    def __init__(self, sharpness: float) -> None:
        self.sharpness = sharpness

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> "CentroidClassifier":
        """Learn the mean of the rows of each class, by weight."""
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        self.centroids_ = np.stack(
            [np.average(X[y == code], axis=0, weights=weight[y == code]) for code in np.unique(y)]
        )
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Return the softmax of the negative distances, shape (n, n_classes)."""
        distance = np.stack([np.linalg.norm(X - centroid, axis=1) for centroid in self.centroids_], axis=1)
        score = np.exp(-self.sharpness * (distance - distance.min(axis=1, keepdims=True)))
        return score / score.sum(axis=1, keepdims=True)


class NearestCentroid(PluginModel):
    """Classify a row by the nearest mean of a class."""

    tasks = frozenset({"binary", "multiclass"})
    view = "dense"

    sharpness: float = Field(1.0, gt=0, description="The larger, the closer the probabilities are to 0 and 1.")

    def make_estimator(self, task: str, seed: int, n_threads: int) -> CentroidClassifier:
        """Return the unfitted classifier."""
        return CentroidClassifier(self.sharpness)

    def to_arrays(self, estimator: CentroidClassifier) -> dict[str, np.ndarray]:
        """Return the fitted state."""
        return {"centroids": estimator.centroids_, "sharpness": np.array(estimator.sharpness)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], task: str) -> Any:
        """Return the fitted classifier from its state, after checking it: the file may come from anywhere."""
        if set(arrays) != {"centroids", "sharpness"} or arrays["centroids"].ndim != 2 or arrays["sharpness"].ndim:
            raise ValueError("expected centroids, shape (n_classes, n_columns), and a sharpness")
        if arrays["centroids"].dtype.kind != "f" or not np.isfinite(arrays["centroids"]).all():
            raise ValueError("expected finite centroids")
        estimator = CentroidClassifier(float(arrays["sharpness"]))
        estimator.centroids_ = arrays["centroids"]
        return estimator

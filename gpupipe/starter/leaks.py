"""Columns that give the target away: alone they predict it nearly without error, on rows not used to learn.

Cross-validation with a tree on one column. A column of many levels gains nothing from them: no leaf is smaller than
`MIN_LEAF` rows, and no row is predicted from itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.starter.sample import FOLDS, Sample

Array = Any
LIMIT = 0.99
MIN_LEAF = 3
MIN_ROWS = 60  # with fewer, a good column looks like a leak
MEASURES = {
    "binary": "ROC-AUC",
    "multiclass": "balanced accuracy",
    "regression": "R² of the ranks",
}


@dataclass(frozen=True)
class Leak:
    """A column that predicts the target alone, and how well: `score` of `measure`."""

    measure: str
    score: float

    def about(self, target: str) -> str:
        """Return it in words."""
        return f"alone it predicts {target}, {self.measure} {self.score:.3f} on rows not learned from"


def find_leaks(sample: Sample) -> dict[str, Leak]:
    """Return the columns that are leaks, with their scores."""
    if len(sample.y) < MIN_ROWS:
        return {}
    scores = {name: single_column_score(x, sample) for name, x in sample.columns.items()}
    return {name: Leak(MEASURES[sample.task], score) for name, score in scores.items() if score >= LIMIT}


def single_column_score(x: Array, sample: Sample) -> float:
    """Return how well one column predicts the target of rows that were not learned from, 1 at best."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    X, y = x.astype(np.float32)[:, None], sample.ranks
    tree = DecisionTreeClassifier if sample.task == "multiclass" else DecisionTreeRegressor
    predicted = np.empty(len(y))
    for k in range(FOLDS):
        held_out = sample.fold == k
        fitted = tree(min_samples_leaf=MIN_LEAF, random_state=0).fit(X[~held_out], y[~held_out])
        predicted[held_out] = fitted.predict(X[held_out])
    return _score(sample, y, predicted)


def _score(sample: Sample, y: Array, predicted: Array) -> float:
    if sample.task == "binary":
        return area_under_curve(y, predicted)
    if sample.task == "multiclass":
        return float(np.mean([(predicted[y == label] == label).mean() for label in np.unique(y)]))
    return r_squared(y, predicted)


def area_under_curve(y: Array, score: Array) -> float:
    """Return the area under the ROC curve of a 0/1 target; 0.5 where it has a single class."""
    from scipy.stats import rankdata

    n_positive, n_negative = y.sum(), (1 - y).sum()
    if not n_positive or not n_negative:
        return 0.5
    wins = rankdata(score)[y == 1].sum() - n_positive * (n_positive + 1) / 2
    return float(wins / (n_positive * n_negative))


def r_squared(y: Array, predicted: Array) -> float:
    """Return the share of the variance of `y` that is explained; 0 where it has none."""
    spread = np.square(y - y.mean(axis=0)).sum()
    return float(1 - np.square(y - predicted).sum() / spread) if spread else 0.0

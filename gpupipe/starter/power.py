"""Predictive power of columns on held-out rows, alone and together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpupipe.backends.threads import limit_threads
from gpupipe.starter.sample import FOLDS, NumericSample
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import Array

SMOOTHING = 5.0  # rows
MIN_LEAF = 3  # rows, so that unique values cannot be memorized
# For a model of many columns
MIN_ROWS = 2_000
MAX_ROWS = 10_000
MAX_CELLS = 300_000
MAX_CODES = 64  # columns with more levels use `level_means`
REACHES, MIN_LIKELY = (
    (1, 4),
    0.85,
)  # rows before and after; minimum score of their mean for a score of 0.975 with a tree
MAX_TOGETHER = 500  # maximum number of columns in a model
BINS = 16
STEPS = {"max_iter": 40, "learning_rate": 0.15, "early_stopping": False, "random_state": 0}
# Boosting grows a tree per class in each round: 40 rounds of 32 classes and 50 columns take a minute.
MANY_CLASSES = 5
# Minimum score of a column alone. Numbers are often predictable from one other (the previous value), classes rarely.
LIMITS = {"binary": 0.975, "multiclass": 0.975, "regression": 0.99}
MEASURES = {"binary": "ROC-AUC", "multiclass": "balanced accuracy", "regression": "R² of the ranks"}
TREES = {"n_estimators": 100, "min_samples_leaf": MIN_LEAF, "max_features": 0.5, "n_jobs": -1, "random_state": 0}


def targets_of(sample: NumericSample) -> Array:
    """Return the targets, shape (n_rows, n_targets): ranks, or class indicators (binary: of the second class)."""
    if sample.task == "multiclass":
        return np.stack([sample.y == label for label in np.unique(sample.y)], axis=1).astype(np.float64)
    return np.asarray(sample.ranks, np.float64)[:, None]


def share_explained(targets: Array, predicted: Array) -> float:
    """Return the share of target variance that predictions explain; 0 if the targets are constant."""
    spread = np.square(targets - targets.mean(axis=0)).sum()
    return float(1 - np.square(targets - predicted).sum() / spread) if spread else 0.0


def level_codes(x: Array) -> Array:
    """Return the values of a column as codes from 0; nulls have their own code."""
    return np.unique(x, return_inverse=True)[1].reshape(-1)


def level_means(codes: Array, targets: Array, fold: Array) -> Array:
    """Return the smoothed mean target of each row's level in the other folds; shape as `targets`."""
    n_codes = int(codes.max()) + 1
    predicted = np.empty_like(targets)
    for k in range(FOLDS):
        learn, test = fold != k, fold == k
        count = np.bincount(codes[learn], minlength=n_codes)[:, None]
        total = np.stack([np.bincount(codes[learn], t, minlength=n_codes) for t in targets[learn].T], axis=1)
        means = (total + SMOOTHING * targets[learn].mean(axis=0)) / (count + SMOOTHING)
        predicted[test] = means[codes[test]]
    return predicted


def alone(name: str, sample: NumericSample, max_steps: int | None = None) -> Array:
    """Return out-of-fold predictions from one column, by level means or a tree; shape (n_rows, n_targets).

    `max_steps` limits the leaves of the tree, for noisy columns; without a limit, it finds exact relations.
    """
    x, targets = sample.columns[name], targets_of(sample)
    if name in sample.coded:
        return level_means(level_codes(x), targets, sample.fold)
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(min_samples_leaf=MIN_LEAF, max_leaf_nodes=max_steps, random_state=0)
    return out_of_fold(tree, x.astype(np.float32)[:, None], targets, sample.fold)


def out_of_fold(model: Any, X: Array, targets: Array, fold: Array) -> Array:
    """Return out-of-fold predictions of a scikit-learn regressor; shape as `targets`."""
    predicted = np.empty_like(targets)
    for k in range(FOLDS):
        test = fold == k
        predicted[test] = model.fit(X[~test], targets[~test]).predict(X[test]).reshape(test.sum(), -1)
    return predicted


def rough_powers(names: Sequence[str], sample: NumericSample) -> dict[str, float]:
    """Return the approximate share of the target that each column explains alone, 100 times faster than `alone`.

    It is computed from out-of-fold means of the levels, or of `BINS` bins of equal counts for numbers.
    """
    targets, n_rows = targets_of(sample), len(sample.y)
    powers = {}
    for name in names:
        x = sample.columns[name]
        if name in sample.coded:
            codes = level_codes(x)
        else:
            codes = np.empty(n_rows, np.intp)
            codes[x.argsort(kind="stable")] = np.arange(n_rows) * BINS // max(1, n_rows)
            codes[np.isnan(x)] = BINS
        powers[name] = share_explained(targets, level_means(codes, targets, sample.fold))
    return powers


def strongest(names: Sequence[str], sample: NumericSample, most: int = MAX_TOGETHER) -> list[str]:
    """Return the `most` strongest columns by `rough_powers`, in their original order."""
    if len(names) <= most:
        return list(names)
    powers = rough_powers(names, sample)
    chosen = set(sorted(names, key=lambda name: -powers[name])[:most])
    return [name for name in names if name in chosen]


def could_be_exact(name: str, sample: NumericSample) -> bool:
    """Return whether a numeric column may predict the target almost exactly: neighbors in its order have equal targets.

    This filter costs a fiftieth of `alone`.
    """
    targets, n_rows = targets_of(sample), len(sample.y)
    order, places = sample.columns[name].argsort(kind="stable"), np.arange(n_rows)
    ordered = targets[order]
    totals = np.concatenate([np.zeros((1, targets.shape[1])), np.cumsum(ordered, axis=0)])
    predicted = np.empty_like(targets)
    for reach in REACHES:
        low, high = np.maximum(places - reach, 0), np.minimum(places + reach + 1, n_rows)
        predicted[order] = (totals[high] - totals[low] - ordered) / (high - low - 1)[:, None]
        if score(predicted, sample) >= MIN_LIKELY:
            return True
    return False


def together(names: Sequence[str], sample: NumericSample) -> Array:
    """Return out-of-fold predictions of trees on several columns; shape as `targets_of`.

    The trees are small and boosted; of `MANY_CLASSES` or more, a random forest.
    """
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
    )

    targets = targets_of(sample)
    coded = [name in sample.coded for name in names]
    X = np.stack([_input(name, sample) for name in names], axis=1)
    kind = HistGradientBoostingClassifier if sample.task in CLASSIFICATION else HistGradientBoostingRegressor
    y = sample.y if sample.task in CLASSIFICATION else targets[:, 0]
    predicted = np.empty_like(targets)
    with limit_threads(openmp=1):  # as fast on so few rows, and much faster on a busy machine
        for k in range(FOLDS):
            test = sample.fold == k
            if targets.shape[1] >= MANY_CLASSES:
                model: Any = RandomForestClassifier(**TREES)
            else:
                model = kind(categorical_features=coded if any(coded) else None, **STEPS)
            model.fit(X[~test], y[~test])
            found = model.predict_proba(X[test]) if sample.task in CLASSIFICATION else model.predict(X[test])
            if sample.task not in CLASSIFICATION:
                predicted[test] = found[:, None]
            elif sample.task == "binary":
                predicted[test] = found[:, 1:]
            else:  # a rare class may be absent from the training folds
                columns = np.searchsorted(np.unique(sample.y), model.classes_)
                predicted[np.ix_(test, np.arange(targets.shape[1]))] = 0.0
                predicted[np.ix_(test, columns)] = found
    return predicted


def smaller(sample: NumericSample) -> NumericSample:
    """Return as many rows as `together` can process in about two seconds, by the number of columns and classes."""
    n_columns = max(1, len(sample.columns)) * (len(np.unique(sample.y)) if sample.task == "multiclass" else 1)
    return sample.head(max(MIN_ROWS, min(MAX_ROWS, MAX_CELLS // n_columns)))


def can_join(name: str, sample: NumericSample) -> bool:
    """Return whether `together` can use a column: it is not constant and has at most `MAX_CODES` levels."""
    n_values = len(np.unique(sample.columns[name]))
    return n_values > 1 and (name not in sample.coded or n_values <= MAX_CODES)


def _input(name: str, sample: NumericSample) -> Array:
    return level_codes(sample.columns[name]) if name in sample.coded else sample.columns[name]


def area_under_curve(y: Array, score: Array) -> float:
    """Return the area under the ROC curve of a 0/1 target; 0.5 if it has a single class."""
    from scipy.stats import rankdata

    n_positive, n_negative = y.sum(), (1 - y).sum()
    if not n_positive or not n_negative:
        return 0.5
    wins = rankdata(score)[y == 1].sum() - n_positive * (n_positive + 1) / 2
    return float(wins / (n_positive * n_negative))


def score(predicted: Array, sample: NumericSample) -> float:
    """Return the score of predictions: ROC-AUC, balanced accuracy or R² of the ranks, by task."""
    if sample.task == "binary":
        return area_under_curve(sample.y, predicted[:, 0])
    if sample.task == "multiclass":
        labels = np.unique(sample.y)
        found = labels[predicted.argmax(axis=1)]
        return float(np.mean([(found[sample.y == label] == label).mean() for label in labels]))
    return share_explained(targets_of(sample), predicted)

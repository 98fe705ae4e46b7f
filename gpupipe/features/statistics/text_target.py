"""Predictions of the target from the n-grams of texts, by ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.features.statistics.text_components import TextComponents
from gpupipe.features.statistics.training import TargetCounts
from gpupipe.random_streams import make_generator
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

PENALTIES = tuple(np.logspace(-1, 2, 7).tolist())  # the vector of a text has length 1 for each analyzer
MAX_TEXTS_TO_SELECT = 1_000  # by cross-validation, whose time grows with their cube
TOLERANCE = 1e-4  # relative, of the conjugate gradients


@dataclass(frozen=True, eq=False)
class TargetOfFolds:
    """Predictions for training rows by models of the other folds.

    - `texts`: positions of the texts that the models have learned from
    - `values`: float32, shape (n_outputs, folds, len(texts))
    """

    texts: HostArray
    values: HostArray


def add_target(
    components: TextComponents, matrix: csr_matrix, counts: TargetCounts, texts: HostArray, seed: int
) -> tuple[TextComponents, TargetOfFolds]:
    """Return components with columns that predict the target of texts, and the predictions out of fold.

    A column is the deviation of an output from its mean, in standard deviations of the mean output of a text. The
    regression has no intercept, so a text without known n-grams has the mean.

    - `matrix`: TF-IDF matrix of the texts at the positions `texts`
    - `counts`: row counts and target sums of all texts
    """
    others = TargetCounts(counts.count[:, texts], counts.total[:, texts]).of_other_folds()
    n, total = others.count, others.total  # (folds + 1, n_texts), (folds + 1, n_texts, n_outputs)
    rows = n.sum(axis=1)
    mean = total.sum(axis=1) / np.where(rows > 0, rows, 1.0)[:, None]
    y = total / np.where(n > 0, n, 1.0)[:, :, None] - mean[:, None]
    deviation = np.sqrt((n[0, :, None] * np.square(y[0])).sum(axis=0) / max(rows[0], 1.0))
    y /= np.where(deviation > 0, deviation, 1.0)
    penalty = _select_penalty(matrix, y[0], n[0], seed)
    coefficients = [_ridge(matrix, own, weights, penalty) for own, weights in zip(y, n, strict=True)]
    values = np.stack([(matrix @ own).T for own in coefficients[1:]], axis=1).astype(np.float32)
    return components.append(coefficients[0]), TargetOfFolds(texts, values)


def _select_penalty(matrix: csr_matrix, y: HostArray, weights: HostArray, seed: int) -> float:
    from sklearn.linear_model import RidgeCV

    used = np.flatnonzero(weights > 0)
    if len(used) > MAX_TEXTS_TO_SELECT:
        used = make_generator(seed, "sampled texts").choice(used, MAX_TEXTS_TO_SELECT, replace=False)
    if len(used) < 2:
        return float(PENALTIES[-1])
    model = RidgeCV(PENALTIES, fit_intercept=False).fit(matrix[used], y[used], weights[used])
    return float(model.alpha_)


def _ridge(matrix: csr_matrix, y: HostArray, weights: HostArray, penalty: float) -> HostArray:
    """Return the coefficients, shape (matrix.shape[1], n_outputs)."""
    from sklearn.linear_model import Ridge

    used = np.flatnonzero(weights > 0)
    if not len(used) or not matrix.shape[1]:
        return np.zeros((matrix.shape[1], y.shape[1]))
    model = Ridge(penalty, fit_intercept=False, solver="sparse_cg", tol=TOLERANCE)
    return np.atleast_2d(model.fit(matrix[used], y[used], weights[used]).coef_).T

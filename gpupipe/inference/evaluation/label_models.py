"""Distributions of the unknown targets of rows, given the outputs of a model: fitted on rows whose targets are known.

- Classes: beta calibration (Kull, Silva Filho and Flach, "Beta calibration", AISTATS 2017) of the probability of each
  class against all others, as a logistic regression with a normal prior around the identity; its parameters are
  drawn from the Laplace approximation of their posterior.
- Numbers: residuals of rows with similar outputs, resampled within 20 bins of equal size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpupipe.inference.evaluation.held_out import HeldOutRows
from gpupipe.model_parts.goal import Goal
from gpupipe.typing import Array

SMALLEST = 1e-6  # probabilities are clipped to [SMALLEST, 1 - SMALLEST]
IDENTITY = np.array([1.0, 1.0, 0.0])
PRIOR_PRECISION = 1.0  # of each parameter: as much as a few rows
MOST_STEPS = 100
N_BINS, FEWEST_IN_BIN = 20, 25

DrawLabels = Callable[[np.random.Generator], Array]


def fit_labels(rows: HeldOutRows, goal: Goal) -> ClassLabelModel | NumberLabelModel:
    """Return the distribution of a single target, fitted on rows with finite targets, at least one."""
    if goal.n_classes:
        return ClassLabelModel.fit(rows.output, rows.y, goal.n_classes)
    return NumberLabelModel.fit(center(rows.output), rows.y)


def center(output: Array) -> Array:
    """Return the predicted values; of quantiles, the middle one."""
    return output if output.ndim == 1 else output[:, output.shape[1] // 2]


@dataclass(frozen=True)
class ClassLabelModel:
    """Calibration of class probabilities: of class 1 for two classes, else of each class against all others.

    `means`, float64, shape (k, 3), are the most probable parameters; `roots`, shape (k, 3, 3), roots of their
    covariance.
    """

    means: Array
    roots: Array

    @staticmethod
    def fit(probability: Array, y: Array, n_classes: int) -> ClassLabelModel:
        """Return the calibration of rows with class codes `y`."""
        if probability.ndim == 1:
            fitted = [fit_beta(probability, y == 1)]
        else:
            fitted = [fit_beta(probability[:, code], y == code) for code in range(n_classes)]
        return ClassLabelModel(np.stack([mean for mean, _ in fitted]), np.stack([root for _, root in fitted]))

    def probabilities(self, probability: Array, parameters: Array | None = None) -> Array:
        """Return the calibrated probabilities, same shape, by the most probable parameters if none are given."""
        own = self.means if parameters is None else parameters
        if probability.ndim == 1:
            return _sigmoid(_logs(probability) @ own[0])
        found = np.stack([_sigmoid(_logs(p) @ each) for p, each in zip(probability.T, own, strict=True)], axis=1)
        shares: Array = found / found.sum(axis=1, keepdims=True)
        return shares

    def draw(self, output: Array, generator: np.random.Generator) -> DrawLabels:
        """Return a function that draws class codes, float64, shape (n,), from one draw of the parameters."""
        noise = generator.standard_normal(self.means.shape)
        q = self.probabilities(output, self.means + np.einsum("kij,kj->ki", self.roots, noise))
        if q.ndim == 1:
            return lambda own: (own.random(len(q)) < q).astype(np.float64)
        sums = np.cumsum(q, axis=1)[:, :-1]
        return lambda own: (own.random(len(q))[:, None] >= sums).sum(axis=1).astype(np.float64)


def fit_beta(probability: Array, is_positive: Array) -> tuple[Array, Array]:
    """Return the parameters of beta calibration, shape (3,), and a root of their covariance, shape (3, 3).

    The calibrated log odds are ``a ln p - b ln(1 - p) + c``. Newton's method with halved steps; the loss is convex.
    """
    X, y = _logs(probability), is_positive.astype(np.float64)
    theta = IDENTITY.copy()

    def loss(at: Array) -> float:
        z = X @ at
        gap = at - IDENTITY
        return float((np.logaddexp(0.0, z) - y * z).sum() + 0.5 * PRIOR_PRECISION * gap @ gap)

    for _ in range(MOST_STEPS):
        q = _sigmoid(X @ theta)
        gradient = X.T @ (q - y) + PRIOR_PRECISION * (theta - IDENTITY)
        step = np.linalg.solve(_hessian(X, q), gradient)
        size, now = 1.0, loss(theta)
        while size > 1e-4 and loss(theta - size * step) > now:
            size /= 2
        theta = theta - size * step
        if float(np.abs(size * step).max()) < 1e-8:
            break
    covariance = np.linalg.inv(_hessian(X, _sigmoid(X @ theta)))
    return theta, np.linalg.cholesky((covariance + covariance.T) / 2)


def _hessian(X: Array, q: Array) -> Array:
    found: Array = (X * (q * (1.0 - q))[:, None]).T @ X + PRIOR_PRECISION * np.eye(3)
    return found


def _logs(probability: Array) -> Array:
    p = probability.clip(SMALLEST, 1.0 - SMALLEST)
    return np.stack([np.log(p), -np.log1p(-p), np.ones_like(p)], axis=1)


def _sigmoid(z: Array) -> Array:
    found: Array = 1.0 / (1.0 + np.exp(-z.clip(-500, 500)))
    return found


@dataclass(frozen=True)
class NumberLabelModel:
    """Residuals in bins of the predicted value, in the order of the bins.

    `edges`, shape (n_bins - 1,), separate the bins, and `starts`, int64, shape (n_bins + 1,), are their first
    residuals.
    """

    edges: Array
    starts: Array
    residuals: Array

    @staticmethod
    def fit(value: Array, y: Array) -> NumberLabelModel:
        """Return the residuals of rows with numbers `y`."""
        order = np.argsort(value, kind="stable")
        n_bins = max(1, min(N_BINS, len(y) // FEWEST_IN_BIN))
        ranked = value[order]
        edges = np.unique(ranked[[len(y) * i // n_bins for i in range(1, n_bins)]])
        edges = edges[edges > ranked[0]]
        starts = np.concatenate([[0], np.searchsorted(ranked, edges), [len(y)]])
        return NumberLabelModel(edges, starts, (y - value)[order])

    def draw(self, output: Array, generator: np.random.Generator) -> DrawLabels:
        """Return a function that draws numbers, shape (n,), from one resampling of the residuals."""
        of_rows = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        resampled = self.residuals[self._pick(of_rows, generator)]
        value = center(output)
        bins = np.searchsorted(self.edges, value, side="right")
        return lambda own: value + resampled[self._pick(bins, own)]

    def _pick(self, bins: Array, generator: np.random.Generator) -> Array:
        """Return the position of a random residual of each bin."""
        sizes = np.diff(self.starts)[bins]
        found: Array = self.starts[bins] + (generator.random(len(bins)) * sizes).astype(np.int64)
        return found

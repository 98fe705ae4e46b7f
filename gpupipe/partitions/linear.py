"""Linear models trained in passes over the partitions of a matrix that does not fit into one process.

Logistic regression: Newton's method in a trust region (SciPy's ``trust-exact``) on the mean log loss and scikit-learn's
L2 penalty; a pass gives loss, gradient and Hessian. Ridge: the normal equations of centred columns, in two passes. Both
minimise what scikit-learn's estimators minimise, in float64; the last digits depend on where partitions end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.backends.normal_equations import centred_products, column_sums
from gpupipe.backends.threads import limit_threads
from gpupipe.errors import ConfigError
from gpupipe.models import FitContext, FittedModel, ModelSettings
from gpupipe.models.linear.fitted import Coefficients, FittedLinear
from gpupipe.models.linear.settings import LogisticRegression, Ridge
from gpupipe.models.progress import ProgressReport
from gpupipe.models.training import prepare_rows
from gpupipe.partitions.matrix import PartitionedMatrix
from gpupipe.typing import Array

Sums = list[Any]  # additive results of partitions: arrays and numbers

BLOCK_ROWS = 16_384  # in float64 at a time
MOST_WEIGHTS = 2_000  # the number of rows and columns of the Hessian
SMOOTH = ("auto", "lbfgs", "newton-cg", "newton-cholesky")  # these solvers reach the same minimum


def can_fit_in_passes(model: ModelSettings, n_columns: int, context: FitContext) -> bool:
    """Return whether `fit_in_passes` can train a model on a matrix of that shape."""
    if isinstance(model, LogisticRegression):
        n_weights = (n_columns + 1) * (context.n_classes if context.n_classes > 2 else 1)
        return model.l1_ratio == 0 and not model.dual and model.solver in SMOOTH and n_weights <= MOST_WEIGHTS
    if isinstance(model, Ridge):
        return model.alpha > 0 and not model.positive and model.solver in ("auto", "cholesky")
    return False


def fit_in_passes(model: ModelSettings, X: PartitionedMatrix, y: Array | None, context: FitContext) -> FittedModel:
    """Train a model that `can_fit_in_passes` accepts.

    Raise ConfigError if it does not converge, and DataError if the rows have fewer than 2 classes.
    """
    rows = prepare_rows(model, X, y, context)
    assert rows.y is not None
    passes = _Passes(X, rows.y, rows.weights, context)
    with context.resources.show_progress(passes.report):
        if isinstance(model, Ridge):
            found = _ridge(model, passes)
        else:
            assert isinstance(model, LogisticRegression)
            found = _logistic(model, passes, len(rows.classes))
    note = f"trained in {passes.n} passes over the partitions: its matrix does not fit into one process"
    return FittedLinear(found, context.task, tuple(context.feature_names), context.n_classes, rows.classes, (note,))


class _Passes:
    """Passes over the partitions: apply a function to each, sum the results."""

    def __init__(self, X: PartitionedMatrix, y: Array, weights: Array | None, context: FitContext) -> None:
        self.X = X
        self.context = context
        self.n = 0
        self.total_weight = float(len(y) if weights is None else weights.sum())
        own_weights = [None] * len(X.partitions) if weights is None else X.split_rows(weights)
        self.own = [[X.workers.put(rows) for rows in zip(X.split_rows(y), own_weights, strict=True)]]

    def report(self) -> ProgressReport | None:
        """Return the passes that are complete; how many the optimizer needs is unknown."""
        return ProgressReport(self.n - 1, None, "pass") if self.n > 1 else None

    def sum(self, function: Callable[..., Sums], *arguments: Any) -> Sums:
        self.n += 1
        self.context.resources.safe_point(f"after {self.n} passes")
        found = self.X.compute(_on_one_thread, function, *arguments, each=self.own, label=f"pass {self.n}")
        return [sum(parts[1:], start=parts[0]) for parts in zip(*found, strict=True)]


def _logistic(model: LogisticRegression, passes: _Passes, n_classes: int) -> Coefficients:
    from scipy.optimize import minimize

    n_outputs = n_classes if n_classes > 2 else 1
    shape = (n_outputs, passes.X.n_columns + model.fit_intercept)  # the intercept is the last column
    penalty: Array = np.full(shape, 1.0 / (model.C * passes.total_weight))
    if model.fit_intercept:
        penalty[:, -1] = 0.0
    penalty = penalty.reshape(-1)
    hessians: dict[bytes, Array] = {}

    def loss_and_gradient(w: Array) -> tuple[float, Array]:
        loss, gradient, hessian = (
            part / passes.total_weight for part in passes.sum(_log_loss, w.reshape(shape), model.fit_intercept)
        )
        hessians.clear()  # the Hessian of the last evaluated point, where the optimizer needs it
        hessians[w.tobytes()] = hessian + np.diag(penalty)
        return float(loss + 0.5 * w @ (penalty * w)), gradient + penalty * w

    def hessian(w: Array) -> Array:
        if w.tobytes() not in hessians:
            loss_and_gradient(w)
        return hessians[w.tobytes()]

    options = {"gtol": model.tol, "maxiter": model.max_iter, "initial_trust_radius": 10.0, "max_trust_radius": 1e4}
    start = np.zeros(penalty.size)
    found = minimize(loss_and_gradient, start, method="trust-exact", jac=True, hess=hessian, options=options)
    if not found.success:
        raise ConfigError(
            f"logistic_regression did not converge in {found.nit} steps: {found.message}",
            where="models: logistic_regression",
            fix="raise max_iter, standardize its columns, or strengthen the penalty (a lower C)",
        )
    return _coefficients(found.x.reshape(shape), model.fit_intercept)


def _coefficients(weights: Array, has_intercept: bool) -> Coefficients:
    if not has_intercept:
        return Coefficients(weights, np.zeros(len(weights)))
    intercept = weights[:, -1].copy()
    if len(weights) > 1:  # probabilities do not depend on their mean, which has no penalty
        intercept -= intercept.mean()
    return Coefficients(np.ascontiguousarray(weights[:, :-1]), intercept)


def _ridge(model: Ridge, passes: _Passes) -> Coefficients:
    from scipy.linalg import solve

    n_columns = passes.X.n_columns
    if model.fit_intercept:
        sums, total, weight = passes.sum(_totals)
        mean, mean_y = sums / weight, float(total / weight)
    else:
        mean, mean_y = np.zeros(n_columns), 0.0
    gram, moment = passes.sum(_products, mean, mean_y)
    coef = solve(gram + model.alpha * np.eye(n_columns), moment, assume_a="pos")
    return Coefficients(coef[None, :], np.array([mean_y - mean @ coef]))


def _on_one_thread(backend: Backend, X: Array, function: Callable[..., Sums], *arguments: Any) -> Sums:
    with limit_threads(blas=1):  # for skinny matrices: see `gpupipe.models.linear.settings.WIDE`
        return function(X, *arguments)


def _blocks(X: Array, own: tuple[Array, Array | None]) -> Iterator[tuple[Array, Array, Array]]:
    """Yield blocks of rows in float64 with targets and weights; one empty block if there are no rows."""
    y, weights = own
    for low in range(0, max(1, len(X)), BLOCK_ROWS):
        rows = X[low : low + BLOCK_ROWS].astype(np.float64, order="C")
        w = np.ones(len(rows)) if weights is None else weights[low : low + BLOCK_ROWS]
        yield rows, y[low : low + BLOCK_ROWS], w


def _log_loss(X: Array, weights: Array, has_intercept: bool, own: tuple[Array, Array | None]) -> Sums:
    """Return the summed log loss, its gradient, and its Hessian by ``weights``, shape (outputs, columns)."""
    n = weights.size
    loss = 0.0
    gradient = np.zeros(n)
    hessian = np.zeros((n, n))
    of_block = _binary if len(weights) == 1 else _multinomial
    for rows, y, w in _blocks(X, own):
        if has_intercept:
            rows = np.column_stack([rows, np.ones(len(rows))])
        parts = of_block(rows, y, w, weights)
        loss += parts[0]
        gradient += parts[1]
        hessian += parts[2]
    return [np.float64(loss), gradient, hessian]


def _binary(rows: Array, y: Array, w: Array, weights: Array) -> tuple[float, Array, Array]:
    from scipy.special import expit

    score = rows @ weights[0]
    p = expit(score)
    loss = float(w @ (np.logaddexp(0.0, score) - y * score))
    return loss, rows.T @ (w * (p - y)), rows.T @ (rows * (w * p * (1.0 - p))[:, None])


def _multinomial(rows: Array, y: Array, w: Array, weights: Array) -> tuple[float, Array, Array]:
    from scipy.special import log_softmax

    log_p = log_softmax(rows @ weights.T, axis=1)
    p, at = np.exp(log_p), (np.arange(len(y)), y.astype(np.int64))
    loss, residual = -float(w @ log_p[at]), p.copy()
    residual[at] -= 1.0
    gradient = ((residual * w[:, None]).T @ rows).ravel()
    k, d = weights.shape
    hessian = np.empty((k, d, k, d))
    for i in range(k):
        for j in range(i, k):
            curve = w * p[:, i] * ((1.0 if i == j else 0.0) - p[:, j])
            hessian[i, :, j] = hessian[j, :, i] = rows.T @ (rows * curve[:, None])  # each block is symmetric
    return loss, gradient, hessian.reshape(k * d, k * d)


def _totals(X: Array, own: tuple[Array, Array | None]) -> Sums:
    """Return the sums of the columns, of the target and of the weights."""
    return list(column_sums(_blocks(X, own)))


def _products(X: Array, mean: Array, mean_y: float, own: tuple[Array, Array | None]) -> Sums:
    """Return the products of the centred columns with each other, and with the centred target."""
    return list(centred_products(_blocks(X, own), mean, mean_y))

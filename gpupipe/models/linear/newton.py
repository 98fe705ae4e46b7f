"""Logistic regression by Newton's method, in passes over blocks of rows.

Newton's method with a backtracking line search (Nocedal and Wright, "Numerical Optimization", 2nd edition, sections 3.3
and 3.4), known as iteratively reweighted least squares (Bishop, "Pattern Recognition and Machine Learning", section
4.3.3). Steps, line search and convergence criteria are those of scikit-learn's solver newton-cholesky, checked with
version 1.9, which needs two float64 copies of the matrix and restarts with lbfgs if the Hessian is ill-conditioned.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from gpupipe.models.convergence import NotConverged
from gpupipe.models.fitted.seen_rows import SeenRows
from gpupipe.models.linear.passes import ContinuedPasses, MatrixPasses, Parts, Passes, Reduction, RowBlock, add

if TYPE_CHECKING:
    from gpupipe.typing import Array

ARMIJO = 2.0**-11  # least decrease of the loss, as a fraction of that of its tangent
MOST_HALVINGS = 21
LOSS_EPSILON = 16 * 2.0**-52  # relative differences of losses below it are rounding
# A step that the line search rejects is due to rounding if it promised less than this fraction of the loss.
NEGLIGIBLE = 1e-12


@dataclass
class NewtonLogisticRegression:
    """Logistic regression with an L2 penalty, binary or multinomial, with scikit-learn's parameters and attributes.

    ``coef_`` is float64, shape (n_outputs, d), and ``intercept_`` has the shape (n_outputs,): one output for two
    classes. ``n_iter_`` is the number of steps. ``seen`` are rows of before, which are fitted as well, and ``seen_``
    has these and those of the fit. A training that does not converge issues the warning `NotConverged`.
    """

    C: float = 1.0
    fit_intercept: bool = True
    tol: float = 1e-4
    max_iter: int = 100
    n_threads: int = 1
    seen: SeenRows | None = None

    def fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """Fit to a matrix, float32, shape (n, d), column-major, which is neither written to nor copied as a whole.

        `y` has codes of all classes from 0, shape (n,); `sample_weight` is float64, shape (n,). BLAS is limited to one
        thread by the caller. Raise ValueError if a value of `X` is missing or infinite.
        """
        return self.fit_passes(MatrixPasses(X, y, sample_weight, self.n_threads), int(y.max()) + 1)

    def fit_passes(self, passes: Passes, n_classes: int) -> Self:
        """Fit in passes over rows whose targets are codes of classes, as `fit`."""
        import numpy as np

        passes = passes if self.seen is None else ContinuedPasses(passes, self.seen, add_seen)
        n_outputs = n_classes if n_classes > 2 else 1
        objective = _Objective(passes, n_outputs, self.C, self.fit_intercept)
        minimum, self.n_iter_ = _minimize(objective, self.tol, self.max_iter)
        found, self.seen_ = minimum.coef, objective.seen(minimum)
        self.coef_, self.intercept_ = found, np.zeros(n_outputs)
        if self.fit_intercept:
            self.coef_, self.intercept_ = np.ascontiguousarray(found[:, :-1]), found[:, -1].copy()
            if n_outputs > 1:  # probabilities do not depend on their mean, which has no penalty
                self.intercept_ -= self.intercept_.mean()
        return self


class _Point(NamedTuple):
    """Coefficients, shape (n_outputs, d), with the loss, its gradient, and its Hessian if it was computed.

    Of the minimum, the Hessian is that of the step before: it differs less than the tolerance, and needs no pass.
    """

    coef: Array
    loss: float
    gradient: Array
    hessian: Array | None


class _Objective:
    """Mean log loss of the rows plus the L2 penalty; the intercept, the last column, is not penalized."""

    def __init__(self, passes: Passes, n_outputs: int, C: float, has_intercept: bool) -> None:
        import numpy as np

        self._passes, self._has_intercept = passes, has_intercept
        self._penalty = np.full((n_outputs, passes.shape[1] + has_intercept), 1.0 / (C * passes.total_weight))
        if has_intercept:
            self._penalty[:, -1] = 0.0
        # The probabilities of several classes leave one intercept free: the last one stays at 0.
        self.n_free = self._penalty.size - (has_intercept and n_outputs > 1)

    def start(self) -> _Point:
        """Return the point of zeros; raise ValueError if the matrix has values that are not finite."""
        import numpy as np

        found = self.at(np.zeros_like(self._penalty), with_hessian=True)
        if not np.isfinite(found.gradient).all():
            raise ValueError("the matrix has missing or infinite values, or values too large to be squared")
        return found

    def seen(self, minimum: _Point) -> SeenRows:
        """Return the expansion of the summed loss at the minimum, without the penalty."""
        import numpy as np

        total = self._passes.total_weight
        assert minimum.hessian is not None
        hessian = minimum.hessian - np.diag(self._penalty.ravel())
        return SeenRows(total, minimum.coef, hessian * total, (minimum.gradient - self._penalty * minimum.coef) * total)

    def at(self, coef: Array, with_hessian: bool) -> _Point:
        """Return the loss and its derivatives at some coefficients, in one pass."""
        import numpy as np

        sums = self._passes.reduce(log_loss, coef, self._has_intercept, with_hessian)
        loss, gradient, *hessian = (part / self._passes.total_weight for part in sums)
        for matrix in hessian:
            matrix[np.diag_indices_from(matrix)] += self._penalty.ravel()
        gradient = gradient.reshape(coef.shape) + self._penalty * coef
        penalty = 0.5 * float(np.sum(self._penalty * coef**2))
        return _Point(coef, float(loss) + penalty, gradient, hessian[0] if hessian else None)


def _minimize(objective: _Objective, tol: float, max_iter: int) -> tuple[_Point, int]:
    """Return the minimum, and the number of steps; warn if it was not reached."""
    import numpy as np

    point = objective.start()
    hessian = point.hessian
    for n_steps in range(1, max_iter + 1):
        if point.hessian is None:
            point = objective.at(point.coef, with_hessian=True)
        hessian = point.hessian
        assert hessian is not None
        step = _newton_step(hessian, point.gradient, objective.n_free)
        slope = float(np.sum(point.gradient * step))  # minus the square of the Newton decrement
        can_be_last = -0.5 * slope <= tol
        following = _line_search(objective, point, step, slope, with_hessian=not can_be_last)
        if following is None:
            if -0.5 * slope <= NEGLIGIBLE * abs(point.loss):
                return point, n_steps
            break
        if can_be_last and np.abs(following.gradient).max() <= tol:
            return _with_hessian(following, hessian), n_steps
        point = following
    warnings.warn(f"Newton's method did not converge in {n_steps} steps", NotConverged, stacklevel=2)
    return _with_hessian(point, hessian), n_steps


def _with_hessian(point: _Point, last: Array | None) -> _Point:
    return point if point.hessian is not None else point._replace(hessian=last)


def _newton_step(hessian: Array, gradient: Array, n_free: int) -> Array:
    """Return the step that minimizes the quadratic model of the loss.

    The Hessian is scaled to a unit diagonal, so that the units of columns do not matter. Its eigenvalues are raised to
    the accuracy of the largest one: a step along collinear columns is short instead of arbitrary.
    """
    import numpy as np

    diagonal = hessian.diagonal()[:n_free]
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(hessian[:n_free, :n_free] * scale[:, None] * scale)
    values = np.maximum(values, n_free * np.finfo(np.float64).eps * values[-1])
    step = np.zeros(gradient.size)
    step[:n_free] = -scale * (vectors @ ((vectors.T @ (scale * np.ravel(gradient)[:n_free])) / values))
    return step.reshape(gradient.shape)


def _line_search(objective: _Objective, point: _Point, step: Array, slope: float, with_hessian: bool) -> _Point | None:
    """Return the first of the points at 1, 1/2, 1/4 … of a step that decreases the loss enough, or None.

    With `with_hessian`, the first one has its Hessian: most steps are accepted as a whole.
    """
    import numpy as np

    length = 1.0
    for _ in range(MOST_HALVINGS):
        found = objective.at(point.coef + length * step, with_hessian and length == 1.0)
        change = found.loss - point.loss
        if change <= ARMIJO * length * slope:
            return found
        is_rounding = abs(change) <= LOSS_EPSILON * abs(point.loss)
        if is_rounding and np.abs(found.gradient).sum() < np.abs(point.gradient).sum():
            return found
        length /= 2.0
    return None


def add_seen(seen: SeenRows, function: Reduction, arguments: Sequence[Any], parts: Parts) -> Parts:
    """Return the loss of further rows and its derivatives with the expansion of those of rows that were seen before."""
    import numpy as np

    coef, _, with_hessian = arguments
    assert function is log_loss and seen.slope is not None
    step, slope = np.ravel(coef - seen.point), np.ravel(seen.slope)
    change = seen.factor @ step
    return add(parts, [step @ (slope + 0.5 * change), slope + change, *([seen.factor] if with_hessian else [])])


def log_loss(blocks: Iterable[RowBlock], coef: Array, has_intercept: bool, with_hessian: bool) -> Parts:
    """Return the summed log loss, its gradient, shape (n,), and with `with_hessian` its Hessian, shape (n, n).

    The derivatives are by the n elements of `coef`, shape (n_outputs, d): output after output.
    """
    of_block = _binary if len(coef) == 1 else _multinomial
    sums: Parts | None = None
    for block in blocks:
        if has_intercept:
            block.columns[-1] = 1.0
        n_columns = coef.shape[1]
        block = block._replace(columns=block.columns[:n_columns], scratch=block.scratch[:n_columns])
        parts = of_block(block, coef, with_hessian)
        sums = parts if sums is None else add(sums, parts)
    assert sums is not None
    return sums


def _binary(block: RowBlock, coef: Array, with_hessian: bool) -> Parts:
    import numpy as np

    columns, y, weights, scratch = block
    score = coef[0] @ columns
    sign = np.where(y > 0, 1.0, -1.0)
    margin = sign * score
    small = np.exp(-np.abs(score))  # at most 1: neither the loss nor a probability near 0 loses digits
    loss = weights @ (np.log1p(small) - np.minimum(margin, 0.0))
    wrong = np.where(margin >= 0.0, small, 1.0) / (1.0 + small)  # probability of the other class
    parts: Parts = [loss, columns @ (-sign * weights * wrong)]
    if with_hessian:
        parts.append(_products(columns, weights * small / (1.0 + small) ** 2, scratch))
    return parts


def _multinomial(block: RowBlock, coef: Array, with_hessian: bool) -> Parts:
    import numpy as np

    columns, y, weights, scratch = block
    score = coef @ columns
    score -= score.max(axis=0)
    p, own = np.exp(score), (y.astype(np.int64), np.arange(len(y)))
    total = p.sum(axis=0)
    loss = weights @ (np.log(total) - score[own])
    p /= total
    residual = p * weights
    residual[own] -= weights
    parts: Parts = [loss, (residual @ columns.T).ravel()]
    if with_hessian:
        parts.append(_multinomial_hessian(columns, weights, p, scratch))
    return parts


def _multinomial_hessian(columns: Array, weights: Array, p: Array, scratch: Array) -> Array:
    import numpy as np

    k, d = len(p), len(columns)
    spread = (columns * (p * np.sqrt(weights))[:, None]).reshape(k * d, -1)
    hessian: Array = -(spread @ spread.T)  # of each pair of classes; for a class and itself, p (1 - p) instead of -p p
    for i, own in enumerate(p):
        block = slice(i * d, (i + 1) * d)
        hessian[block, block] = _products(columns, weights * own * (1.0 - own), scratch)
    return hessian


def _products(columns: Array, weights: Array, scratch: Array) -> Array:
    """Return the weighted products of the columns, by a BLAS routine that computes one triangle."""
    import numpy as np

    weighted: Any = scratch
    np.multiply(columns, np.sqrt(weights), out=weighted)
    products: Array = weighted @ weighted.T
    return products

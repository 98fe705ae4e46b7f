"""Metrics of regressors."""

from __future__ import annotations

import math

from gpupipe.backends.weighted_quantiles import weighted_quantiles
from gpupipe.metrics.predictions import ValuePredictions
from gpupipe.metrics.registry import metric
from gpupipe.tasks import REGRESSION

EPSILON = 2.0**-52  # smallest denominator of a relative error, as in scikit-learn


@metric("r2", REGRESSION)
def r2(rows: ValuePredictions) -> float:
    """Fraction of the variance of the target that is explained; undefined for fewer than 2 rows."""
    if len(rows.y_true) < 2:
        return math.nan
    spread, error = (rows.y_true - rows.mean(rows.y_true)) ** 2, rows.error**2
    # A constant target scores 1 if it is predicted exactly, else 0, as in scikit-learn.
    total, unexplained = (rows.mean(squares) for squares in (spread, error))
    return 1.0 - unexplained / total if total else float(unexplained == 0.0)


@metric("rmse", REGRESSION, greater_is_better=False)
def rmse(rows: ValuePredictions) -> float:
    """Square root of the mean squared error, in units of the target."""
    return math.sqrt(rows.mean(rows.error**2))


@metric("mae", REGRESSION, greater_is_better=False)
def mae(rows: ValuePredictions) -> float:
    """Mean absolute error, in units of the target."""
    return rows.mean(abs(rows.error))


@metric("median_ae", REGRESSION, greater_is_better=False)
def median_ae(rows: ValuePredictions) -> float:
    """Median absolute error, in units of the target."""
    if rows.sample_weight is not None:
        return weighted_quantiles(abs(rows.error), rows.sample_weight, [0.5], rows.backend, "averaged_inverted_cdf")[0]
    return float(rows.backend.to_host(rows.backend.xp.median(abs(rows.error))))


# Not a default metric: a single target near 0 makes it huge.
@metric("mape", REGRESSION, greater_is_better=False, default=False)
def mape(rows: ValuePredictions) -> float:
    """Mean absolute error relative to the target; 0.1 is 10 %."""
    return rows.mean(abs(rows.error) / abs(rows.y_true).clip(EPSILON, None))

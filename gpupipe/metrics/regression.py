"""Metrics of regressors."""

from __future__ import annotations

import math

from gpupipe.metrics.registry import Array, metric

REGRESSION = ("regression",)


@metric("r2", "value", REGRESSION)
def r2(y_true: Array, value: Array, n_classes: int = 0) -> float:
    """Share of the variance that is explained; not defined for fewer than two rows."""
    from sklearn.metrics import r2_score

    return float(r2_score(y_true, value)) if len(y_true) > 1 else math.nan


@metric("rmse", "value", REGRESSION, greater_is_better=False)
def rmse(y_true: Array, value: Array, n_classes: int = 0) -> float:
    """Square root of the mean squared error, in units of the target."""
    from sklearn.metrics import root_mean_squared_error

    return float(root_mean_squared_error(y_true, value))


@metric("mae", "value", REGRESSION, greater_is_better=False)
def mae(y_true: Array, value: Array, n_classes: int = 0) -> float:
    """Mean absolute error, in units of the target."""
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(y_true, value))


@metric("median_ae", "value", REGRESSION, greater_is_better=False)
def median_ae(y_true: Array, value: Array, n_classes: int = 0) -> float:
    """Median absolute error, in units of the target."""
    from sklearn.metrics import median_absolute_error

    return float(median_absolute_error(y_true, value))


# Not among the defaults: a single target near zero makes it astronomic.
@metric("mape", "value", REGRESSION, greater_is_better=False, default=False)
def mape(y_true: Array, value: Array, n_classes: int = 0) -> float:
    """Mean absolute error relative to the target (0.1 is ten percent)."""
    from sklearn.metrics import mean_absolute_percentage_error

    return float(mean_absolute_percentage_error(y_true, value))

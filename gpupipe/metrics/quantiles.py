"""Metrics of quantile regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.backends.weighted_quantiles import weighted_quantiles
from gpupipe.metrics.predictions import QuantilePredictions
from gpupipe.metrics.registry import metric
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend


@metric("pinball_loss", ("quantile",), greater_is_better=False)
def pinball_loss(rows: QuantilePredictions) -> float:
    """Mean pinball loss over rows and quantiles, in units of the target."""
    return _mean(rows.losses)


@metric("d2_pinball", ("quantile",))
def d2_pinball(rows: QuantilePredictions) -> float:
    """Fraction of the pinball loss of the best constants that is avoided; undefined for fewer than 2 rows."""
    if len(rows.y_true) < 2:
        return math.nan
    constant, loss = _mean(constant_losses(rows)), _mean(rows.losses)
    return 1.0 - loss / constant if constant else float(loss == 0.0)


@metric("coverage_error", ("quantile",), greater_is_better=False)
def coverage_error(rows: QuantilePredictions) -> float:
    """Mean over the quantiles of the difference between a level and the fraction of the rows up to its quantile."""
    return _mean([abs(found - level) for level, found in zip(rows.levels, rows.shares, strict=True)])


@dataclass(frozen=True)
class QuantileLoss:
    """A predicted quantile, compared with the true values."""

    level: float  # in (0, 1)
    share: float  # fraction of the rows whose true value is at most the quantile
    # loss, constant_loss: mean pinball loss, and that of the best constant.
    loss: float
    constant_loss: float


def quantile_losses(
    y_true: Array,
    predicted: Array,
    levels: Sequence[float],
    *,
    sample_weight: Array | None = None,
    backend: Backend,
) -> list[QuantileLoss]:
    """Return share and losses of each quantile; arguments as for `gpupipe.metrics.evaluate`."""
    rows = QuantilePredictions.of(y_true, predicted, levels, backend, sample_weight)
    found = zip(rows.levels, rows.shares, rows.losses, constant_losses(rows), strict=True)
    return [QuantileLoss(*each) for each in found]


def constant_losses(rows: QuantilePredictions) -> list[float]:
    """Return the pinball loss of each level for the best constant, the quantile of the true values."""
    xp, weight = rows.backend.xp, rows.sample_weight
    weight = xp.ones(len(rows.y_true)) if weight is None else weight
    # Unlike interpolated quantiles, these minimize the loss.
    best = weighted_quantiles(rows.y_true, weight, rows.levels, rows.backend, "averaged_inverted_cdf")
    return [rows.loss(level, rows.y_true - value) for level, value in zip(rows.levels, best, strict=True)]


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)

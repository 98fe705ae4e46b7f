"""Metrics, thresholds, calibration and importance. Importing this package imports no numeric library."""

from __future__ import annotations

# Importing a family registers its metrics; listings keep this order.
from gpupipe.metrics import classification, regression, quantiles, ranked_groups, clustering  # noqa: F401  # isort: skip
from gpupipe.metrics.calibration import Calibration, fit_calibration
from gpupipe.metrics.curves import Curves, Points, Residuals, TopRows, confusion, curves, residuals
from gpupipe.metrics.evaluation import evaluate, join_scores, metric_names, undefined_notes, unit_notes
from gpupipe.metrics.importance import ColumnImportance, permutation_importance
from gpupipe.metrics.predictions import predicted_labels
from gpupipe.metrics.quantiles import QuantileLoss, quantile_losses
from gpupipe.metrics.ranked_groups import CutoffNdcg, cutoff_ndcgs
from gpupipe.metrics.registry import METRICS, Metric
from gpupipe.metrics.settings import Costs, Evaluate, FailOn, Importance, SliceColumn
from gpupipe.metrics.threshold import choose_threshold

__all__ = [
    "METRICS",
    "Calibration",
    "ColumnImportance",
    "Costs",
    "Curves",
    "CutoffNdcg",
    "Evaluate",
    "FailOn",
    "Importance",
    "Metric",
    "Points",
    "QuantileLoss",
    "Residuals",
    "SliceColumn",
    "TopRows",
    "choose_threshold",
    "confusion",
    "curves",
    "cutoff_ndcgs",
    "evaluate",
    "fit_calibration",
    "join_scores",
    "metric_names",
    "permutation_importance",
    "predicted_labels",
    "quantile_losses",
    "residuals",
    "undefined_notes",
    "unit_notes",
]

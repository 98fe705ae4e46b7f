"""Metric: how much more frequent positive rows are among those with the highest scores."""

import numpy as np

from gpupipe.plugins import PluginMetric


def lift_10(y_true: np.ndarray, y_pred: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Share of positive rows in the tenth with the highest probabilities, divided by that of all rows."""
    weight = np.ones(len(y_true)) if sample_weight is None else sample_weight
    order = np.argsort(-y_pred, kind="stable")
    top = order[np.cumsum(weight[order]) <= 0.1 * weight.sum()]
    if not len(top) or not y_true.any():
        return float("nan")
    return float(np.average(y_true[top], weights=weight[top]) / np.average(y_true, weights=weight))


LIFT_10 = PluginMetric(lift_10, tasks={"binary"}, response_method="predict_proba")

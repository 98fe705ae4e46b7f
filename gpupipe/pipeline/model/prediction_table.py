"""Predictions as tables."""

from __future__ import annotations

import pyarrow as pa

from gpupipe.metrics.predictions import predicted_labels
from gpupipe.models.fitted.base import Prediction
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.model.prediction_arrays import class_probabilities
from gpupipe.pipeline.target import Goal


def prediction_table(prediction: Prediction, goal: Goal, decision: Decision) -> pa.Table:
    """Return predictions as a table; see `gpupipe.Model.predict_table` for its columns."""
    if prediction.probability is not None:
        probability = class_probabilities(prediction.probability)
        chosen = predicted_labels(goal.task, prediction.probability, decision.threshold)
        columns = {"prediction": pa.array(goal.labels).take(pa.array(chosen))}
        columns |= {f"probability_{label}": p for label, p in zip(goal.labels, probability.T, strict=True)}
        if decision.intervals is not None:
            members = decision.intervals.members(probability)
            columns |= {f"set_{label}": is_in for label, is_in in zip(goal.labels, members.T, strict=True)}
        return pa.table(columns)
    if prediction.embedding is not None:
        return pa.table({f"embedding_{i}": column for i, column in enumerate(prediction.embedding.T)})
    if prediction.label is not None:
        return pa.table({"prediction": prediction.label, "distance": prediction.distance})
    columns = {"prediction": prediction.value}
    if prediction.quantiles is not None:
        columns = dict(zip(goal.quantile_names, prediction.quantiles.T, strict=True))
    if decision.intervals is not None:
        columns["lower"], columns["upper"] = decision.intervals.interval(prediction.output)
    return pa.table(columns)

"""Predictions as tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gpupipe.metrics.predictions import predicted_labels
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.goal import Goal, output_of_target
from gpupipe.pipeline.model.prediction_arrays import class_probabilities


def prediction_table(prediction: Prediction, goal: Goal, decision: Decision) -> pa.Table:
    """Return predictions as a table; see `gpupipe.Model.predict_table` for its columns."""
    columns: dict[str, Any]
    if goal.targets:
        columns = {}
        for part, own, decided in zip(prediction.parts, goal.targets, decision.targets, strict=True):
            found = prediction_table(part, own, decided)
            names = [output_of_target(name, own) for name in found.column_names]
            columns |= dict(zip(names, found.columns, strict=True))
        return pa.table(columns)
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

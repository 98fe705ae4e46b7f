"""Predictions as tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from gpupipe.arrow_numpy import number_array, text_array
from gpupipe.inference.prediction.prediction_arrays import class_probabilities
from gpupipe.metrics.predictions import predicted_labels
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import LABEL_TYPES, Goal, output_of_target
from gpupipe.models.fitted.prediction import Prediction
from gpupipe.table.exact_values import decimal_type


def label_column(goal: Goal, codes: Any) -> pa.Array:
    """Return the labels of class codes with the type of the target column."""
    return _labels(goal).take(number_array(codes))


def label_kind(goal: Goal) -> pa.DataType:
    """Return the Arrow type of the labels in predictions."""
    return _labels(goal).type


def _labels(goal: Goal) -> pa.Array:
    """Return the labels of the classes in order."""
    if goal.label_type and goal.label_type not in LABEL_TYPES:
        return pa.array(goal.labels, decimal_type(goal.label_type))
    if all(isinstance(label, str) for label in goal.labels):
        return text_array(goal.labels)
    values = np.array(goal.labels)
    kind = pa.type_for_alias(goal.label_type) if goal.label_type else None
    if values.dtype not in (bool, np.int64):
        return pa.array(goal.labels, kind)
    return number_array(values).cast(kind) if kind else number_array(values)


def prediction_table(prediction: Prediction, goal: Goal, decision: Decision) -> pa.Table:
    """Return predictions as a table; see `gpupipe.Model.predict_table` for its columns."""
    columns: dict[str, Any]
    if goal.targets:
        columns = {}
        for part, own, decided in zip(prediction.parts, goal.targets, decision.targets, strict=True):
            found = prediction_table(part, own, decided)
            names = [output_of_target(name, own) for name in found.column_names]
            columns |= dict(zip(names, found.columns, strict=True))
        return _table(columns)
    if prediction.probability is not None:
        probability = class_probabilities(prediction.probability)
        chosen = predicted_labels(goal.task, prediction.probability, decision.threshold)
        columns = {"prediction": label_column(goal, chosen)}
        columns |= {f"probability_{label}": p for label, p in zip(goal.label_texts, probability.T, strict=True)}
        if decision.intervals is not None:
            members = decision.intervals.members(probability)
            columns |= {f"set_{label}": is_in for label, is_in in zip(goal.label_texts, members.T, strict=True)}
        return _table(columns)
    if prediction.embedding is not None:
        return _table({f"embedding_{i}": column for i, column in enumerate(prediction.embedding.T)})
    if prediction.label is not None:
        return _table({"prediction": prediction.label, "distance": prediction.distance})
    columns = {"prediction": prediction.value}
    if prediction.quantiles is not None:
        columns = dict(zip(goal.quantile_names, prediction.quantiles.T, strict=True))
    if decision.intervals is not None:
        columns["lower"], columns["upper"] = decision.intervals.interval(prediction.output)
    return _table(columns)


def _table(columns: dict[str, Any]) -> pa.Table:
    arrays = (c if isinstance(c, pa.Array | pa.ChunkedArray) else number_array(c) for c in columns.values())
    return pa.table(dict(zip(columns, arrays, strict=True)))

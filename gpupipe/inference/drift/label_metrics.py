"""Metrics of rows whose target is known, relative to those that the run recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.inference.drift.column_drift import MetricDrift
from gpupipe.inference.drift.reference import MetricReference
from gpupipe.metrics import METRICS, evaluate, join_scores
from gpupipe.metrics.bootstrap import FEWEST_ROWS, Z_95, class_strata, sampling_errors
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal
from gpupipe.models import Prediction
from gpupipe.table.encode import plain_values
from gpupipe.table.numeric_columns import as_numbers
from gpupipe.table.schema import BOOLEAN_WORDS
from gpupipe.table.string_columns import as_dictionary
from gpupipe.tasks import CLASSIFICATION, SUPERVISED
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.metrics.settings import Costs


@dataclass(frozen=True)
class LabelledRows:
    """Rows with a known target."""

    y: Array  # float64, shape (n,), or (n, k) for several targets
    predicted: Prediction
    known: Array  # bool, shape (n_given,): true for the given rows that these are
    n_unknown: int  # rows that are missing because their label is not one of the model's


def labelled_rows(targets: pa.Table, predicted: Prediction, goal: Goal) -> LabelledRows:
    """Return the rows in which every target is known.

    Raise SchemaError if a numeric target has values that are not numbers.

    - `targets`: the target columns of the predicted rows
    - `predicted`: calibrated
    """
    each, n_unknown = target_values(targets, goal)
    known: Array = np.logical_not(np.isnan(each).any(axis=1))
    y = each[known] if goal.targets else each[known, 0]
    return LabelledRows(y, predicted.mapped(lambda array: array[known]), known, n_unknown)


def target_values(targets: pa.Table, goal: Goal) -> tuple[Array, int]:
    """Return the targets as class codes or numbers, float64, shape (n, n_targets), and the number of unknown labels.

    They are NaN for null and for labels that are not of the model. Raise SchemaError as `labelled_rows`.
    """
    columns, unknown = [], np.zeros(targets.num_rows, bool)
    for own in goal.each:
        values = plain_values(targets, own.target or "")
        y = _codes(values, own) if own.task in CLASSIFICATION else _numbers(own.target or "", values)
        unknown |= np.isnan(y) & np.asarray(values.is_valid())
        columns.append(y)
    return np.stack(columns, axis=1), int(unknown.sum())


def _numbers(name: str, values: pa.ChunkedArray) -> Array:
    numbers: Array = as_numbers(name, values).cast(pa.float64()).to_numpy()
    return numbers


def _codes(values: pa.ChunkedArray, goal: Goal) -> Array:
    """Return the class code of each row, NaN for null and for other labels."""
    codes = {_text(label): float(code) for code, label in enumerate(goal.labels)}
    words = {"false", "true"} >= set(codes)
    dictionary = as_dictionary(values)
    parts = [np.empty(0)]
    for chunk in dictionary.chunks:
        texts = [text or "" for text in chunk.dictionary.to_pylist()]
        if words:
            texts = [
                ("false", "true")[BOOLEAN_WORDS[t]] if (t := text.strip().lower()) in BOOLEAN_WORDS else text
                for text in texts
            ]
        of_text = np.array([*(codes.get(text, math.nan) for text in texts), math.nan])
        parts.append(of_text[chunk.indices.fill_null(len(texts)).to_numpy()])
    return np.concatenate(parts)


def _text(label: object) -> str:
    if isinstance(label, bool):
        return str(label).lower()
    return f"{label:.0f}" if isinstance(label, float) and label.is_integer() else str(label)


def compare_metrics(
    rows: LabelledRows, recorded: Mapping[str, MetricReference], goal: Goal, decision: Decision, backend: Backend
) -> list[MetricDrift]:
    """Return the metrics of the run on labelled rows, in the order of `recorded`.

    The standard error of a metric is that of bootstrap samples, stratified by class. That of the recorded metric
    follows from its number of rows, as both errors are equal without a change.
    """
    names = [name for name in dict.fromkeys(each.partition("[")[0] for each in recorded) if is_measurable(name, goal)]
    n = len(rows.y)
    if not names or n < FEWEST_ROWS:
        return []
    score = metric_scorer(rows, names, goal, decision, backend)
    values = score(np.arange(n))
    errors = sampling_errors(score, values, class_strata(np.asarray(rows.y), goal.has_classes))
    found = []
    for name, reference in recorded.items():
        if not math.isfinite(values.get(name, math.nan)):
            continue
        error, value = float(np.nanstd(errors[name])), values[name]
        worse = is_worse(name, value, error, n, reference)
        found.append(MetricDrift(name, reference.value, value, value - Z_95 * error, value + Z_95 * error, worse))
    return found


def is_worse(name: str, value: float, error: float, n_rows: int, reference: MetricReference) -> bool:
    """Return whether a metric of `n_rows` rows, with its standard error, is worse than the reference by 1.96 errors."""
    both = error * math.sqrt(1 + n_rows / reference.n_rows)
    sign = 1.0 if METRICS.get(name.partition("[")[0]).greater_is_better else -1.0
    return bool(sign * (reference.value - value) > Z_95 * both)


def is_measurable(name: str, goal: Goal, costs: Costs | None = None) -> bool:
    """Return whether a metric can be computed from labels alone, and from `costs`, which no model stores."""
    if (name == "cost" and costs is None) or name not in METRICS or goal.task == "ranking":
        return False
    tasks = METRICS.get(name).tasks
    return all(task in SUPERVISED and task in tasks for task in goal.tasks)


def metric_scorer(
    rows: LabelledRows,
    names: Sequence[str],
    goal: Goal,
    decision: Decision,
    backend: Backend,
    costs: Costs | None = None,
) -> Callable[[Array], dict[str, float]]:
    """Return the function from row numbers, int64, shape (m,), to the metrics of these rows and of each target."""

    def score_one(own: Goal, y: Array, predicted: Prediction, decided: Decision) -> dict[str, float]:
        return evaluate(
            own.task,
            y,
            predicted.output,
            names,
            decided.threshold,
            own.n_classes,
            costs=costs,
            quantiles=own.quantiles,
            backend=backend.host,
        )

    def score(chosen: Array) -> dict[str, float]:
        y, predicted = rows.y[chosen], rows.predicted.mapped(lambda array: array[chosen])
        if not goal.targets:
            return score_one(goal, y, predicted, decision)
        each = zip(goal.targets, y.T, predicted.parts, decision.targets, strict=True)
        return join_scores(goal.names, [score_one(*own) for own in each])

    return score

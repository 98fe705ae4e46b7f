"""Metrics of rows whose target is known, relative to those that the run recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import Backend
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
    return select_labelled(*target_values(targets, goal), predicted, goal)


def select_labelled(y: Array, n_unknown: int, predicted: Prediction, goal: Goal) -> LabelledRows:
    """Return the rows whose targets, shape (n, n_targets), are all known."""
    known = is_known(y)
    own = y[known] if goal.targets else y[known, 0]
    return LabelledRows(own, predicted.mapped(lambda array: array[known]), known, n_unknown)


def is_known(y: Array) -> Array:
    """Return whether all targets of each row are known, bool, shape (n,), of targets of shape (n, n_targets)."""
    found: Array = np.logical_not(np.isnan(y).any(axis=1))
    return found


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


def is_worse(name: str, found: MetricError, n_rows: int, reference: MetricReference) -> bool:
    """Return whether a metric of `n_rows` rows is worse than the reference by 1.96 standard errors.

    The error of the reference follows from its number of rows, as both errors are equal without a change.
    """
    both = found.error * math.sqrt(1 + n_rows / reference.n_rows)
    sign = 1.0 if METRICS.get(name.partition("[")[0]).greater_is_better else -1.0
    return bool(sign * (reference.value - found.value) > Z_95 * both)


def is_measurable(name: str, goal: Goal, costs: Costs | None = None) -> bool:
    """Return whether a metric can be computed from labels alone, and from `costs`, which no model stores."""
    if (name == "cost" and costs is None) or name not in METRICS or goal.task == "ranking":
        return False
    tasks = METRICS.get(name).tasks
    return all(task in SUPERVISED and task in tasks for task in goal.tasks)


@dataclass(frozen=True)
class MetricError:
    """Metric with its standard error."""

    value: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the 95 % interval."""
        return self.value - Z_95 * self.error, self.value + Z_95 * self.error


Metrics = Mapping[str, MetricError]


@dataclass(frozen=True)
class MetricSettings:
    """Metrics to measure, and the model that they are of."""

    names: Sequence[str]
    goal: Goal
    decision: Decision
    backend: Backend
    costs: Costs | None = None

    def measure(self, rows: LabelledRows) -> Metrics:
        """Return the defined metrics of labelled rows; none of few rows.

        The standard errors are those of bootstrap samples, stratified by class.
        """
        n = len(rows.y)
        if n < FEWEST_ROWS or not self.names:
            return {}
        score = self.scorer(rows)
        values = score(np.arange(n))
        errors = sampling_errors(score, values, class_strata(np.asarray(rows.y), self.goal.has_classes))
        return {
            name: MetricError(value, float(np.nanstd(errors[name])))
            for name, value in values.items()
            if math.isfinite(value)
        }

    def scorer(self, rows: LabelledRows) -> Callable[[Array], dict[str, float]]:
        """Return the function from row numbers, int64, shape (m,), to the metrics of these rows and of each target."""

        def score_one(own: Goal, y: Array, predicted: Prediction, decided: Decision) -> dict[str, float]:
            return evaluate(
                own.task,
                y,
                predicted.output,
                self.names,
                decided.threshold,
                own.n_classes,
                costs=self.costs,
                quantiles=own.quantiles,
                backend=self.backend.host,
            )

        def score(chosen: Array) -> dict[str, float]:
            y, predicted = rows.y[chosen], rows.predicted.mapped(lambda array: array[chosen])
            if not self.goal.targets:
                return score_one(self.goal, y, predicted, self.decision)
            each = zip(self.goal.targets, y.T, predicted.parts, self.decision.targets, strict=True)
            return join_scores(self.goal.names, [score_one(*own) for own in each])

        return score

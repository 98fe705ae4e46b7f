"""Validation of the JSON parts of a model directory: names, kinds and numbers.

Types are checked by shape first: see `gpupipe.model_parts.part_shapes`. Functions raise ValueError;
`gpupipe.inference.prediction.parts.read_parts` adds the path.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.features.program.fitted import Feature
from gpupipe.features.statistics.training_summary import TrainingSummary
from gpupipe.metrics.calibration import Calibration
from gpupipe.metrics.conformal import Conformal, interval_ends
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import LABEL_TYPES, Goal
from gpupipe.model_parts.importances import Importances
from gpupipe.model_parts.part_shapes import GOAL, IMPORTANCES, decision_shape
from gpupipe.models import FittedModel
from gpupipe.models.files.description import MOST_TARGETS
from gpupipe.table.number_texts import NumberFormat
from gpupipe.table.schema import Column, Schema
from gpupipe.tasks import CLASSIFICATION, REGRESSION, SUPERVISED

CODES = ("int8", "int16", "int32")
STORAGES = {
    "numeric": ("float32", "float64"), "boolean": CODES, "categorical": CODES, "datetime": ("int64",), "text": ("",),
    "list": ("",),
}  # fmt: skip
DECIMAL_TYPE = re.compile(r"decimal(128|256)\(([1-9][0-9]?), ([0-9]{1,2})\)")
EXACT = 2**53  # float64 holds every integer up to it
STEEPEST = 1e9  # logits are in [-28, 28]: a steeper calibration is a step function, and products stay finite below


def read_schema(columns: list[dict[str, Any]], levels: Mapping[str, Sequence[str]]) -> Schema:
    """Return the schema with JSON columns and levels by column, whose shapes are checked."""
    schema = Schema.from_json(columns, {name: tuple(values) for name, values in levels.items()})
    _check_distinct(schema.names, "the schema", "column")
    for column in schema:
        _check_column(column)
    if unknown := sorted(set(levels) - set(schema.names)):
        raise ValueError(f"levels: column {unknown[0]!r:.40} is not in the schema")
    return schema


def _check_column(column: Column) -> None:
    has_codes = column.kind in ("boolean", "categorical")
    if column.number_format is not None:
        NumberFormat.from_json(column.number_format)
    if column.storage not in STORAGES[column.kind]:
        raise ValueError(f"the {column.kind} column {column.name!r:.40} has the storage type {column.storage!r:.40}")
    if column.levels is not None and not has_codes:
        raise ValueError(f"the {column.kind} column {column.name!r:.40} cannot have levels")
    if column.kind == "list" and column.dtype not in ("list<number>", "list<text>"):
        raise ValueError(f"the list column {column.name!r:.40} has the type {column.dtype!r:.40}")
    _check_distinct(column.levels or (), f"column {column.name!r:.40}", "level")


def read_described(described: list[dict[str, Any]]) -> tuple[Feature, ...]:
    """Return the features described by JSON values of the shape FEATURES."""
    _check_distinct([each["name"] for each in described], "the matrix", "column")
    return tuple(Feature(f["name"], tuple(f["inputs"]), f["op"], f["n_codes"]) for f in described)


def read_training(document: Mapping[str, Any]) -> TrainingSummary:
    """Return the summary of the training rows described by JSON values of the shape TRAINING."""
    for name, column in document["columns"].items():
        if max(column["nulls"], column["singletons"] or 0) > document["rows"]:
            raise ValueError(f"training summary: column {name!r:.40} has invalid counts")
        low, high = column["low"], column["high"]
        if (low is None) != (high is None) or (low is not None and low > high):
            raise ValueError(f"training summary: the range of {name!r:.40} has invalid or swapped bounds")
    return TrainingSummary.from_json(document)


def read_importances(values: Any) -> Importances | None:
    """Return the importances described by JSON values of a manifest; None if there are none."""
    check_shape(values, IMPORTANCES, "importances")
    if values is None:
        return None
    columns = {c["column"]: (_float(c["importance"]), _float(c["std"])) for c in values["columns"]}
    return Importances(values["metric"], columns)


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)


def read_goal(manifest: Mapping[str, Any]) -> Goal:
    """Return the goal named in a manifest, after checking that its labels fit into one column."""
    check_shape(manifest, {**GOAL, ...: object})
    goal, described = _read_goal(manifest), manifest.get("targets", [])
    if (goal.task == "multioutput") != bool(described) or len(described) > MOST_TARGETS:
        raise ValueError(f"a {goal.task} model: invalid targets")
    if not described:
        return goal
    targets = tuple(map(_read_goal, described))
    names = [each.target or "" for each in targets]
    _check_distinct(names, "the model", "target")
    tasks = {each.task for each in targets}
    if not all(names) or not (tasks <= CLASSIFICATION or tasks <= REGRESSION):
        raise ValueError(f"expected several targets, all numbers or all with classes; found {', '.join(sorted(tasks))}")
    outputs = list(chain.from_iterable([f"{each.target}_{label}" for label in each.label_texts] for each in targets))
    _check_distinct(outputs, "the targets", "output")
    return replace(goal, targets=targets)


def _read_goal(manifest: Mapping[str, Any]) -> Goal:
    task = manifest["task"]
    target = manifest["target"]
    labels = manifest["labels"]
    quantiles = manifest.get("quantiles", [])
    _check_distinct([str(label) for label in labels], "the target", "label")
    label_type = manifest.get("label_type", "")
    _check_one_type(labels, label_type)
    if (task in CLASSIFICATION) != (len(labels) > 1) or (task == "binary" and len(labels) != 2):
        expected = {"binary": "2", "multiclass": "2 or more"}.get(task, "no")
        raise ValueError(f"a {task} model: expected {expected} labels; found {len(labels)}")
    is_ascending = quantiles == sorted(set(quantiles)) and all(0 < level < 1 for level in quantiles)
    if (task == "quantile") != bool(quantiles) or not is_ascending:
        raise ValueError(f"a {task} model: invalid quantiles {quantiles!r:.80}")
    return Goal(task, target, tuple(labels), quantiles=tuple(quantiles), label_type=label_type)


def _check_one_type(labels: Sequence[Any], label_type: str) -> None:
    """Raise ValueError unless `labels` fit into one Arrow column. Serving needs this check, but has no pyarrow."""
    kinds = {type(label) for label in labels}
    if label_type:
        _check_label_type(labels, label_type, kinds)
    elif kinds == {str}:
        "".join(labels).encode()  # raises UnicodeEncodeError, a ValueError, for half of a surrogate pair
    elif kinds <= {int, float}:
        low, high = (-EXACT, EXACT) if float in kinds else (-(2**63), 2**63 - 1)
        if not all(type(label) is float or low <= label <= high for label in labels):
            raise ValueError(f"the labels do not share one type: an integer is not in [{low}, {high}]")
    elif len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"the labels do not share one type: expected text, numbers or booleans; found {names}")


def _check_label_type(labels: Sequence[Any], label_type: str, kinds: set[type]) -> None:
    """Raise ValueError unless all labels fit into the integer or decimal type with this name."""
    if label_type in LABEL_TYPES and kinds == {int}:
        bounds = np.iinfo(label_type)
        if all(bounds.min <= label <= bounds.max for label in labels):
            return
    elif kinds == {int} and (decimal := DECIMAL_TYPE.fullmatch(label_type)):
        digits, scale = int(decimal[2]), int(decimal[3])
        is_valid = scale <= digits <= (38 if decimal[1] == "128" else 76)
        if is_valid and all(-(2**63) <= label < 2**64 and len(str(abs(label))) <= digits - scale for label in labels):
            return
    raise ValueError(f"the labels do not have the type {label_type!r:.40}")


def read_decision(values: Any, goal: Goal) -> Decision:
    """Return the decision described by JSON values: a threshold, a monotone calibration, and intervals."""
    check_shape(values, decision_shape, "decision")
    decision = Decision.from_json(values)
    if len(decision.targets) != len(goal.targets):
        raise ValueError(f"expected a decision for each of {len(goal.targets)} targets; found {len(decision.targets)}")
    if goal.targets:
        for own, target in zip(values["targets"], goal.targets, strict=True):
            read_decision(own, target)
        if len({each.has_intervals for each in decision.targets}) > 1:
            raise ValueError("expected intervals of all targets, or of none")
        return decision
    if not 0 <= decision.threshold <= 1:
        raise ValueError(f"expected a threshold in [0, 1]; found {decision.threshold!r}")
    if decision.calibration is not None:
        _check_calibration(decision.calibration, values["calibration"]["method"], goal)
    if decision.intervals is not None:
        _check_intervals(decision.intervals, goal)
    return decision


def _check_intervals(intervals: Conformal, goal: Goal) -> None:
    is_able = goal.task in SUPERVISED and 0 < intervals.level < 1 and (bool(goal.quantiles) or intervals.score >= 0)
    expected = interval_ends(intervals.level, goal.quantiles)
    if not is_able or intervals.ends != expected or (expected is None and goal.quantiles):
        raise ValueError(f"a {goal.task} model with intervals {intervals!r:.80}")


def _check_calibration(calibration: Calibration, method: Any, goal: Goal) -> None:
    is_able = goal.task == "binary" or (goal.task == "multiclass" and (calibration.classes or method == "temperature"))
    if not is_able or method != calibration.method or (calibration.classes and goal.task == "binary"):
        raise ValueError(f"a {goal.task} model with a calibration of method {method!r:.40}")
    if calibration.classes:
        if len(calibration.classes) != goal.n_classes or any(each.classes for each in calibration.classes):
            raise ValueError(f"calibration: expected a map for each of {goal.n_classes} classes")
        for each in calibration.classes:
            _check_map(each, each.method)
        return
    _check_map(calibration, method)


def _check_map(calibration: Calibration, method: Any) -> None:
    if max(abs(calibration.slope), abs(calibration.intercept)) > STEEPEST:
        raise ValueError(f"calibration: slope or intercept exceeds {STEEPEST:g}")
    x, y = calibration.x, calibration.y
    if len(x) != len(y) or (method == "isotonic" and not x):
        raise ValueError(f"calibration: {len(x)} inputs for {len(y)} outputs")
    if list(x) != sorted(x) or list(y) != sorted(y) or any(not 0 <= value <= 1 for value in y):
        raise ValueError("calibration: expected ascending inputs, and ascending outputs in [0, 1]")


def check_agreement(goal: Goal, features: Sequence[Feature], estimator: FittedModel) -> None:
    """Raise ValueError unless estimator, features and goal belong together."""
    if estimator.task != goal.task or estimator.n_classes != goal.n_classes:
        expected = f"{goal.task} with {goal.n_classes} classes"
        raise ValueError(
            f"expected an estimator for {expected}; found {estimator.task} with {estimator.n_classes} classes"
        )
    if estimator.targets != goal.specs:
        expected, found = (", ".join(own.task for own in specs[:20]) for specs in (goal.specs, estimator.targets))
        raise ValueError(f"expected an estimator for the targets {expected}; found one for {found or 'a single one'}")
    if estimator.n_outputs != goal.n_outputs:
        what = "quantiles" if goal.quantiles else "outputs"
        raise ValueError(f"expected an estimator for {goal.n_outputs} {what}; found one for {estimator.n_outputs}")
    if list(estimator.feature_names) != [feature.name for feature in features]:
        raise ValueError("the feature names of the estimator differ from those of the feature program")


def read_names(values: Any, what: str) -> tuple[str, ...]:
    """Return the names in a JSON list; `what` names the list in errors."""
    check_shape(values, [str], what)
    return tuple(values)


def _check_distinct(values: Sequence[str], of: str, what: str) -> None:
    if len(set(values)) < len(values):
        raise ValueError(f"{of} has a duplicate {what}")

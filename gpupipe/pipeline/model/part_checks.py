"""Checks of the JSON parts of a model directory: names, kinds and numbers are valid before anything uses them.

Every function raises ValueError; `gpupipe.pipeline.model.model.open_model` adds the folder.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, get_args

import pyarrow as pa

from gpupipe.features.program.fitted import Feature
from gpupipe.features.statistics.training_summary import TrainingSummary
from gpupipe.metrics.calibration import Calibration
from gpupipe.models import FittedModel
from gpupipe.pipeline.decision import Decision
from gpupipe.pipeline.importances import Importances
from gpupipe.pipeline.target import Goal
from gpupipe.table.schema import KINDS, Column, Schema
from gpupipe.tasks import CLASSIFICATION, Task

CODES = ("int8", "int16", "int32")
STORAGES = {
    "numeric": ("float32", "float64"), "boolean": CODES, "categorical": CODES, "datetime": ("int64",), "text": ("",),
}  # fmt: skip
TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,), "kind": (str,), "dtype": (str,), "nullable": (bool,), "storage": (str,), "derived": (bool,),
    "time_format": (str, type(None)), "hash_of": (str, type(None)), "n_buckets": (int,),
}  # fmt: skip
MOST_BUCKETS = 1 << 24  # float32 holds every integer below it
LABELS = (str, int, float, bool)
STEEPEST = 1e9  # logits are within 28 of 0: any steeper calibration is a step, and its products stay finite


def read_schema(columns: Any, levels: Mapping[str, Sequence[str]]) -> Schema:
    """Return the schema that JSON values of columns, and of levels by column, describe."""
    if not isinstance(levels, dict):
        raise ValueError("the levels should be an object")
    for column in _listed(columns, "the schema", dict):
        if strange := [key for key, value in column.items() if type(value) not in TYPES.get(key, ())]:
            raise ValueError(f"the schema has a column whose {strange[0]:.40} is {column[strange[0]]!r:.40}")
        if column.get("kind") not in KINDS or not 0 <= column.get("n_buckets", 0) <= MOST_BUCKETS:
            raise ValueError(f"the schema has a column of kind {column.get('kind')!r:.40}, with buckets out of range")
    tuples = {name: tuple(_listed(values, f"the levels of {name!r:.40}", str)) for name, values in levels.items()}
    schema = Schema.from_json(columns, tuples)
    _distinct(schema.names, "the schema", "column")
    for column in schema:
        _check_column(column)
    if strange := sorted(set(levels) - set(schema.names)):
        raise ValueError(f"there are levels of {strange[0]!r:.40}, which is no column of the schema")
    return schema


def _check_column(column: Column) -> None:
    has_codes = column.kind in ("boolean", "categorical")
    if column.storage not in STORAGES[column.kind]:
        raise ValueError(f"column {column.name!r:.40} is {column.kind} and kept as {column.storage!r:.40}")
    if column.levels is not None and (not has_codes or column.hash_of is not None):
        raise ValueError(f"column {column.name!r:.40} has levels that it cannot have")
    _distinct(column.levels or (), f"column {column.name!r:.40}", "level")


def read_described(described: Any) -> tuple[Feature, ...]:
    """Return the columns of the matrix that JSON values describe."""
    keys = {field.name for field in fields(Feature)}
    for each in _listed(described, "the features", dict):
        if set(each) != keys or not isinstance(each["name"], str) or not isinstance(each["op"], str):
            raise ValueError(f"a feature has {', '.join(sorted(keys))}")
        _listed(each["inputs"], "the inputs of a feature", str)
        if type(each["n_codes"]) is not int or not 0 <= each["n_codes"] <= MOST_BUCKETS:
            raise ValueError(f"a feature has {each['n_codes']!r:.40} codes")
    _distinct([each["name"] for each in described], "the matrix", "column")
    return tuple(Feature(f["name"], tuple(f["inputs"]), f["op"], f["n_codes"]) for f in described)


def read_states(states: Any) -> tuple[Mapping[str, Any], ...]:
    """Return what each op learned, as it was written for people."""
    return tuple(_listed(states, "what was learned", dict))


def read_training(document: Any) -> TrainingSummary:
    """Return the summary of the training rows that JSON values describe."""
    what = "the summary of the training rows"
    columns = document["columns"]
    if set(document) != {"rows", "columns"} or not isinstance(columns, dict) or not _is_count(document["rows"]):
        raise ValueError(f"{what} should have a number of rows, and columns")
    for name, column in columns.items():
        counts = [column["nulls"], 0 if column["singletons"] is None else column["singletons"]]
        if set(column) != {"nulls", "low", "high", "singletons"} or not all(
            _is_count(n, document["rows"]) for n in counts
        ):
            raise ValueError(f"{what}: column {name!r:.40} should have numbers of rows, and a range")
        bounds = [column["low"], column["high"]]
        if bounds != [None, None]:
            _numbers(bounds, f"{what}: the range of {name!r:.40}")
            if bounds[0] > bounds[1]:
                raise ValueError(f"{what}: the range of {name!r:.40} ends before it begins")
    return TrainingSummary.from_json(document)


def _is_count(value: Any, most: int = 2**63) -> bool:
    return type(value) is int and 0 <= value <= most


def read_importances(values: Any) -> Importances | None:
    """Return the importances that JSON values of a manifest describe; None where there are none."""
    if values is None:
        return None
    if set(values) != {"metric", "columns"} or not isinstance(values["metric"], str):
        raise ValueError("the importances should have a metric and columns")
    columns = {}
    for each in _listed(values["columns"], "the importances", dict):
        if set(each) != {"column", "importance", "std"} or not isinstance(each["column"], str):
            raise ValueError("an importance should have a column, a mean and a standard deviation")
        measured = [each["importance"], each["std"]]
        _numbers([value for value in measured if value is not None], f"the importance of {each['column']!r:.40}")
        columns[each["column"]] = _float(measured[0]), _float(measured[1])
    return Importances(values["metric"], columns)


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)


def read_goal(manifest: Mapping[str, Any]) -> Goal:
    """Return the goal that a manifest names; its labels fit into one column of a table."""
    task, target, labels = manifest["task"], manifest["target"], _listed(manifest["labels"], "labels", LABELS)
    if task not in get_args(Task) or not isinstance(target, str | None):
        raise ValueError(f"the task is {task!r:.40}, of target {target!r:.40}")
    _distinct([str(label) for label in labels], "the target", "label")
    try:
        pa.array(labels)
    except (pa.ArrowException, OverflowError) as error:
        raise ValueError(f"the labels do not fit into one column: {str(error)[:200]}") from None
    if (task in CLASSIFICATION) != (len(labels) > 1) or (task == "binary" and len(labels) != 2):
        raise ValueError(f"the task is {task}, and there are {len(labels)} labels")
    return Goal(task, target, tuple(labels))


def read_decision(values: Any, goal: Goal) -> Decision:
    """Return the decision that JSON values describe: a threshold, and a monotone calibration."""
    decision = Decision.from_json(values)
    _numbers([decision.threshold], "the threshold")
    if not 0 <= decision.threshold <= 1:
        raise ValueError(f"the threshold is {decision.threshold!r}, no probability")
    if decision.calibration is not None:
        _check_calibration(decision.calibration, values["calibration"]["method"], goal)
    return decision


def _check_calibration(calibration: Calibration, method: Any, goal: Goal) -> None:
    if goal.task != "binary" or method != calibration.method:
        raise ValueError(f"a calibration of kind {method!r:.40}, of a {goal.task} model")
    _numbers([calibration.slope, calibration.intercept], "the calibration")
    if max(abs(calibration.slope), abs(calibration.intercept)) > STEEPEST:
        raise ValueError(f"the calibration has a slope or an intercept of more than {STEEPEST:g}")
    x, y = calibration.x, calibration.y
    _numbers([*x, *y], "the calibration")
    if len(x) != len(y) or (method == "isotonic" and not x):
        raise ValueError(f"the calibration maps {len(x)} values to {len(y)}")
    if list(x) != sorted(x) or list(y) != sorted(y) or any(not 0 <= value <= 1 for value in y):
        raise ValueError("the calibration does not rise from 0 towards 1")


def check_agreement(goal: Goal, features: Sequence[Feature], estimator: FittedModel) -> None:
    """Verify that estimator, features and target are of one model."""
    if estimator.task != goal.task or estimator.n_classes != goal.n_classes:
        what = f"{estimator.task} of {estimator.n_classes} classes"
        raise ValueError(f"the estimator is for {what}, the model for {goal.task} of {goal.n_classes}")
    if list(estimator.feature_names) != [feature.name for feature in features]:
        raise ValueError("the estimator has learned from other columns than the features make")


def read_names(values: Any, what: str) -> tuple[str, ...]:
    """Return the names in a list of JSON; `what` they are, for the message."""
    return tuple(_listed(values, what, str))


def _listed(values: Any, what: str, kind: Any) -> list[Any]:
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise ValueError(f"{what} should be a list")
    return values


def _distinct(values: Sequence[str], of: str, what: str) -> None:
    if len(set(values)) < len(values):
        raise ValueError(f"{of} has a {what} twice")


def _numbers(values: Sequence[Any], what: str) -> None:
    if any(type(value) not in (int, float) or not _is_finite(value) for value in values):
        raise ValueError(f"{what} is not a finite number")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # JSON's integers have no limit
        return False

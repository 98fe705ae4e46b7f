"""Description of an estimator in a model directory; untrusted, so every value is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.tasks import CLASSIFICATION, REGRESSION, TargetSpec, Task

MOST_TARGETS = 1_000
TARGET: dict[Any, Any] = {"task": {*CLASSIFICATION, *REGRESSION}, "n_classes": int}
DESCRIBED: dict[Any, Any] = {"task": {*get_args(Task)}, "feature_names": [str], "n_classes": int, "classes": [int]}
DESCRIBED |= {"targets?": [TARGET], ...: object}
PART: dict[Any, Any] = {"library": str, "files": [str], "units?": [[float]], ...: object}  # a model of several
MEMBER = {"label": str, "name": str, "weight": float, "columns": [int], "models": [PART]}
PART |= {"models?": [PART], "members?": [MEMBER]}
ESTIMATOR = DESCRIBED | PART


@dataclass(frozen=True)
class Description:
    """The description written by `gpupipe.models.FittedModel.save`; attributes as in that class.

    `n_models` is the number of models in the model directory, which share the memory that its files can justify.
    """

    task: Task
    feature_names: tuple[str, ...]
    n_classes: int
    classes: tuple[int, ...]
    n_models: int = 1
    targets: tuple[TargetSpec, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Description:
        """Return the description from JSON values.

        Raise ValueError if a value is missing or invalid.
        """
        check_shape(values, DESCRIBED, "estimator")
        task, names, n_classes, classes = (values[key] for key in ("task", "feature_names", "n_classes", "classes"))
        _check_classes(task, n_classes, classes)
        targets = _read_targets(values.get("targets", []), task)
        return cls(task, tuple(names), n_classes, tuple(classes), targets=targets)

    def check_columns(self, n_columns: object) -> None:
        """Verify that an estimator takes one column per feature, if the features are named.

        Raise ValueError if it does not.
        """
        if type(n_columns) is not int or n_columns < 1 or (self.feature_names and n_columns != len(self.feature_names)):
            raise ValueError(f"expected {len(self.feature_names)} columns; it takes {n_columns!r:.40}")

    def check_outputs(self, n_outputs: int) -> None:
        """Verify that an estimator has one output per class (or one for two classes), or one for regression.

        With several targets, it has those of all. The number of quantiles is compared with that of the goal: see
        `gpupipe.model_parts.part_checks`. Raise ValueError if the number of outputs is wrong.
        """
        if self.task == "quantile":
            return
        if self.task == "multioutput":
            expected = sum(target.width for target in self.targets)
            if n_outputs != expected:
                raise ValueError(f"it has {n_outputs:,} outputs; expected {expected:,} for its targets")
            return
        allowed = {len(self.classes)} | ({1} if len(self.classes) == 2 else set())
        if n_outputs not in (allowed if self.task in CLASSIFICATION else {1}):
            raise ValueError(f"it has {n_outputs:,} outputs for the task {self.task} with {len(self.classes)} classes")


def _read_targets(values: list[Any], task: Task) -> tuple[TargetSpec, ...]:
    if (task == "multioutput") != bool(values) or len(values) > MOST_TARGETS:
        raise ValueError(f"the task {task}: invalid targets")
    return tuple(map(read_target, values))


def read_target(values: Mapping[str, Any]) -> TargetSpec:
    """Return one of several targets from JSON values; raise ValueError if they are invalid."""
    task, n_classes = values["task"], values["n_classes"]
    is_valid = {"binary": n_classes == 2, "multiclass": n_classes >= 2, "regression": n_classes == 0}
    if not is_valid[task]:
        raise ValueError(f"a target has the task {task!r:.40} with {n_classes:,} classes")
    return TargetSpec(task, n_classes)


def _check_classes(task: Task, n_classes: int, classes: list[int]) -> None:
    if task not in CLASSIFICATION:
        if n_classes or classes:
            raise ValueError(f"the task {task} has no classes")
    elif n_classes < 2 or (task == "binary" and n_classes != 2) or len(classes) < 2:
        raise ValueError(f"the task {task} has {n_classes} classes, {len(classes)} of them in training")
    elif classes != sorted(set(classes)) or classes[0] < 0 or classes[-1] >= n_classes:
        raise ValueError(f"expected distinct class codes in [0, {n_classes}), in ascending order")

"""Outputs of a model for single rows, and the differences that would break clients if another model replaced it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.goal import Goal, output_of_target

if TYPE_CHECKING:
    from gpupipe.inference.scorer.scorer import Scorer

OutputType = Literal["text", "boolean", "integer", "number"]


@dataclass(frozen=True)
class Output:
    """An output of a model, as a column of ``gpupipe predict``.

    `labels` are the classes, of a predicted class. `target` is set if there are several targets.
    """

    name: str
    type: OutputType
    labels: tuple[Any, ...] = ()
    target: str = ""


def outputs_of(scorer: Scorer) -> tuple[Output, ...]:
    """Return the outputs of a model, in order."""
    goal, decision = scorer.goal, scorer.decision
    if goal.targets:
        outputs: list[Output] = []
        for own, decided in zip(goal.targets, decision.targets, strict=True):
            for output in _outputs_of(own, decided):
                outputs.append(replace(output, name=output_of_target(output.name, own), target=own.target or ""))
        return tuple(outputs)
    if goal.task == "embedding":
        row = scorer.encoder.encode([dict.fromkeys(scorer.inputs)])
        width = scorer.values(scorer.predict_cells(row)).shape[1]
        return tuple(Output(f"embedding_{i}", "number") for i in range(width))
    return _outputs_of(goal, decision)


def incompatibilities(old: Scorer, new: Scorer, name: str) -> list[str]:
    """Return the reasons why clients of `old`, the model that messages call `name`, cannot use `new`."""
    mine, theirs = _kinds(old), _kinds(new)
    problems = [f"the column {column!r} is not an input of {name}" for column in theirs if column not in mine]
    problems += [
        f"the column {column!r} is {kind}; it is {mine[column]} in {name}"
        for column, kind in theirs.items()
        if mine.get(column, kind) != kind
    ]
    if new.goal.task != old.goal.task:
        problems.append(f"its task is {new.goal.task}; that of {name} is {old.goal.task}")
    elif outputs_of(new) != outputs_of(old):
        problems.append(f"its outputs differ from those of {name}")
    return problems


def _kinds(scorer: Scorer) -> dict[str, str]:
    return {column.source: column.kind for column in scorer.columns}


def _outputs_of(goal: Goal, decision: Decision) -> tuple[Output, ...]:
    """Return the outputs of one target, or of clusters."""
    has_intervals = decision.intervals is not None
    if goal.labels:
        probabilities = [Output(f"probability_{label}", "number") for label in goal.label_texts]
        sets = [Output(f"set_{label}", "boolean") for label in goal.label_texts] if has_intervals else []
        return Output("prediction", _label_type(goal.labels), goal.labels), *probabilities, *sets
    if goal.task == "clustering":
        return Output("prediction", "integer"), Output("distance", "number")
    ends = ["lower", "upper"] if has_intervals else []
    return tuple(Output(name, "number") for name in [*(goal.quantile_names or ["prediction"]), *ends])


def _label_type(labels: Sequence[Any]) -> OutputType:
    if all(type(label) is int for label in labels):  # NumPy has no type for those of more than 64 bits
        return "integer"
    kind = np.array(labels).dtype.kind
    return {"b": "boolean", "f": "number"}.get(kind, "text")  # type: ignore[return-value]

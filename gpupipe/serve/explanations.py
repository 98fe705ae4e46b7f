"""Explanations of ``POST /predict?explain=K``: the strongest columns of each row, as one more output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import numpy as np

from gpupipe.inference.explanation.explanation import Explanation, strongest_columns
from gpupipe.inference.explanation.outputs import UNEXPLAINED, margin_places
from gpupipe.model_parts.goal import Goal, output_of_target
from gpupipe.serve.coalescer import Columns
from gpupipe.serve.problems import RequestProblem
from gpupipe.serve.served_model import ServedModel
from gpupipe.serve.settings import ServeSettings
from gpupipe.table.row_encoder import Row
from gpupipe.typing import HostArray

PARAMETER = "explain"


class ExplainedOutput(NamedTuple):
    """An output whose margin is explained.

    `name` is that of the explanation among the outputs, and `goal` that of its target. `prediction` is the position of
    the predicted class among the outputs of the model; -1 if the output is a number.
    """

    name: str
    goal: Goal
    prediction: int


def has_parameter(query: bytes) -> bool:
    """Return whether a query string asks for explanations."""
    return PARAMETER.encode() in query and PARAMETER in parse_qs(query.decode("latin-1"), keep_blank_values=True)


def read_parameter(query: bytes, model: ServedModel, settings: ServeSettings) -> int:
    """Return the number of columns to show of each row.

    Raise RequestProblem if it is not an integer from 1 to the number of input columns, or the model or the server
    explains nothing.
    """
    require_explainable(model, settings)
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True)[PARAMETER]
    most = len(model.scorer.inputs)
    value = given[0] if len(given) == 1 else ", ".join(given)
    n_columns = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0
    if not 1 <= n_columns <= most:
        raise RequestProblem(
            "invalid_request", f"{PARAMETER}: expected an integer from 1 to {most:,}; found {value[:40]!r}"
        )
    return n_columns


def require_explainable(model: ServedModel, settings: ServeSettings) -> None:
    """Raise RequestProblem if the server has no explanations, or the task of the model has none."""
    if not is_explainable(model, settings):
        is_off, task = settings.explain == "off", model.scorer.goal.task
        what = "this server has no explanations" if is_off else f"a model of the task {task} has no explanations"
        raise RequestProblem("not_explainable", what)


def is_explainable(model: ServedModel, settings: ServeSettings) -> bool:
    """Return whether the server has explanations, and the task of the model too."""
    return settings.explain != "off" and model.scorer.goal.task not in UNEXPLAINED


def explained_outputs(model: ServedModel) -> tuple[ExplainedOutput, ...]:
    """Return what is explained: the prediction, each quantile, or the prediction of each target."""
    goal = model.scorer.goal
    if goal.quantiles:
        return tuple(ExplainedOutput(f"explanation_{name}", goal, -1) for name in goal.quantile_names)
    found = []
    for own in goal.each:
        name = output_of_target("explanation", own) if goal.targets else "explanation"
        of_target = (own.target or "") if goal.targets else ""
        classes = (i for i, output in enumerate(model.outputs) if output.labels and output.target == of_target)
        found.append(ExplainedOutput(name, own, next(classes, -1)))
    return tuple(found)


def explanation_columns(
    model: ServedModel, rows: Sequence[Row], columns: Columns, found: Explanation, n_columns: int
) -> dict[str, list[dict[str, Any]]]:
    """Return the explanations of rows as further outputs, by name.

    `rows` are as they were sent, and `columns` are their outputs. In an explanation, ``columns`` has the `n_columns`
    strongest ones, each with its contribution and the value that was sent, if it was. The base, these contributions and
    ``others`` sum to the margin. ``reasons`` are those of a model with reason codes. ``label`` is the class that a
    margin belongs to: the predicted one of several, the second one of two.
    """
    values = found.values.reshape(len(found), len(found.columns), -1)
    base = np.reshape(found.base, -1)
    outputs, places = explained_outputs(model), margin_places(model.scorer.goal, found.outputs)
    if model.scorer.goal.quantiles:  # each is an output
        places = [(place,) for place in places[0]]
    explained = {}
    for output, own in zip(outputs, places, strict=True):
        labels, margins = _labels_and_margins(output, own, columns, len(rows))
        contributions = values[np.arange(len(rows)), :, margins]
        explained[output.name] = list(
            _described(rows, labels, contributions, base[margins], found.columns, found.scale, n_columns)
        )
    if found.reason_codes is not None:  # of a single output
        for explanation, reasons in zip(explained[outputs[0].name], found.reasons(), strict=True):
            explanation["reasons"] = [reason._asdict() for reason in reasons]
    return explained


def _labels_and_margins(
    output: ExplainedOutput, places: tuple[int, ...], columns: Columns, n_rows: int
) -> tuple[Sequence[Any], HostArray]:
    """Return the label and the position of the margin of each row; `places` are those of the classes of an output."""
    goal = output.goal
    if goal.task != "multiclass":
        label = goal.labels[1] if goal.task == "binary" else None
        return [label] * n_rows, np.full(n_rows, places[0])
    place = dict(zip(goal.labels, places, strict=True))
    predicted = columns[output.prediction]
    return predicted, np.array([place[label] for label in predicted], np.int64)


def _described(
    rows: Sequence[Row],
    labels: Sequence[Any],
    values: HostArray,
    base: HostArray,
    names: Sequence[str],
    scale: str,
    n_columns: int,
) -> Iterator[dict[str, Any]]:
    """Yield the explanation of each row; `values` are its contributions, float64, shape (n, len(names))."""
    order = strongest_columns(values, n_columns)
    others = values.copy()
    np.put_along_axis(others, order, 0.0, axis=1)
    totals = zip(base.tolist(), (base + values.sum(axis=1)).tolist(), others.sum(axis=1).tolist(), strict=True)
    shown = zip(order.tolist(), np.take_along_axis(values, order, axis=1).tolist(), strict=True)
    for row, label, (start, margin, other), (chosen, contributions) in zip(rows, labels, totals, shown, strict=True):
        yield {
            **({} if label is None else {"label": label}),
            "base": start,
            "margin": margin,
            "scale": scale,
            "columns": [
                _column(row, names[j], contribution) for j, contribution in zip(chosen, contributions, strict=True)
            ],
            "others": other,
        }


def _column(row: Mapping[str, Any], name: str, contribution: float) -> dict[str, Any]:
    value = {"value": row[name]} if name in row else {}  # a further table, or a history, is not in the row
    return {"column": name, **value, "contribution": contribution}

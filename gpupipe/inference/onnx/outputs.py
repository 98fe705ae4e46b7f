"""Outputs of the file: calibrated probabilities and labels, values, or quantiles."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.inference.targets.outputs import OutputKind, TargetOutput
from gpupipe.metrics.calibration import EPSILON, Calibration
from gpupipe.models.fitted.prediction import column_bounds

if TYPE_CHECKING:
    from gpupipe.inference.onnx.graph import OnnxGraph
    from gpupipe.model_parts.decision import Decision
    from gpupipe.model_parts.goal import Goal
    from gpupipe.typing import HostArray


def write_outputs(graph: OnnxGraph, found: str, goal: Goal, decision: Decision) -> list[TargetOutput]:
    """Add the outputs of predictions: float64, with the columns of `Prediction.output`."""
    if not goal.targets:
        return _target_outputs(graph, found, goal, decision, "")
    bounds = column_bounds(goal.specs)
    outputs = []
    for own, own_decision, bound in zip(goal.targets, decision.targets, pairwise(bounds), strict=True):
        columns = graph.select(found, range(*bound), bounds[-1])
        outputs += _target_outputs(graph, columns, own, own_decision, f"_{own.target}")
    return outputs


def _target_outputs(graph: OnnxGraph, found: str, goal: Goal, decision: Decision, suffix: str) -> list[TargetOutput]:
    from onnx import TensorProto

    def output(kind: OutputKind, value: str, data_type: int, columns: HostArray, *shape: int) -> TargetOutput:
        name = graph.output(kind + suffix, value, data_type, ["rows", *shape])
        return TargetOutput(name, kind, goal.target or "", columns)

    first = graph.constant([1], np.int64)
    if goal.quantiles:
        return [output("quantiles", found, TensorProto.DOUBLE, np.array(goal.quantiles), len(goal.quantiles))]
    if not goal.n_classes:
        return [output("prediction", graph.add("Squeeze", found, first), TensorProto.DOUBLE, np.empty(0))]
    if decision.calibration is not None:
        found = _calibrated(graph, found, decision.calibration, 1 if goal.task == "binary" else goal.n_classes)
    if goal.task == "binary":
        is_positive = graph.add("GreaterOrEqual", found, graph.constant(decision.threshold, np.float64))
        code = graph.add("Squeeze", graph.cast(is_positive, np.int64), first)
        found = graph.join([graph.add("Sub", graph.constant(1.0, np.float64), found), found])
    else:
        code = graph.add("ArgMax", found, axis=1, keepdims=0)
    labels, data_type = _labels(goal)
    return [
        output("label", graph.add("Gather", graph.constant(labels), code, axis=0), data_type, labels),
        output("probabilities", found, TensorProto.DOUBLE, labels, goal.n_classes),
    ]


def _labels(goal: Goal) -> tuple[HostArray, int]:
    """Return the labels as an array, and its ONNX data type: int64, flags, numbers, or else texts."""
    from onnx import TensorProto

    kinds = {type(label) for label in goal.labels}
    for kind, dtype, data_type in (
        (bool, np.bool_, TensorProto.BOOL),
        (int, np.int64, TensorProto.INT64),
        (float, np.float64, TensorProto.DOUBLE),
    ):
        if kinds == {kind} and (kind is not int or all(-(2**63) <= label < 2**63 for label in goal.labels)):
            return np.array(goal.labels, dtype), int(data_type)
    return np.array(goal.label_texts, object), int(TensorProto.STRING)


def _calibrated(graph: OnnxGraph, p: str, calibration: Calibration, width: int) -> str:
    """Return calibrated probabilities, as `Calibration.apply`; of two classes, `p` has one column."""
    one, least = graph.constant(1.0, np.float64), graph.constant(EPSILON, np.float64)
    slope = graph.constant(calibration.slope, np.float64)
    if calibration.classes:
        columns = [_interpolated(graph, graph.select(p, [i], width), own) for i, own in enumerate(calibration.classes)]
        found = graph.join(columns)
        total = graph.add("ReduceSum", found, graph.constant([1], np.int64), keepdims=1)
        is_positive = graph.add("Greater", total, graph.constant(0.0, np.float64))
        shares = graph.add("Div", found, graph.where(is_positive, total, one))
        return graph.where(is_positive, shares, graph.constant(1.0 / width, np.float64))
    if calibration.method == "isotonic":
        return _interpolated(graph, p, calibration)
    if width > 1:
        logarithm = graph.add("Log", graph.add("Clip", p, least))
        return graph.add("Softmax", graph.add("Mul", logarithm, slope), axis=1)
    clipped = graph.add("Clip", p, least, graph.constant(1.0 - EPSILON, np.float64))
    logit = graph.add("Log", graph.add("Div", clipped, graph.add("Sub", one, clipped)))
    scaled = graph.add("Add", graph.add("Mul", logit, slope), graph.constant(calibration.intercept, np.float64))
    return graph.add("Sigmoid", scaled)


def _interpolated(graph: OnnxGraph, p: str, calibration: Calibration) -> str:
    """Return an isotonic map of one column: linear between its points, constant outside."""
    x, y = np.array(calibration.x), np.array(calibration.y)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.append(np.diff(y) / np.diff(x), 0.0)
    p = graph.add("Max", p, graph.constant(x[:1], np.float64))
    n_below = graph.cast(graph.add("LessOrEqual", graph.constant(x[None], np.float64), p), np.int64)
    count = graph.add("ReduceSum", n_below, graph.constant([1], np.int64), keepdims=1)
    at = graph.add("Sub", count, graph.constant(1, np.int64))
    start, height, rise = (graph.add("Gather", graph.constant(each), at, axis=0) for each in (x, y, slope))
    return graph.add("Add", graph.add("Mul", graph.add("Sub", p, start), rise), height)

"""What is known of a chain of steps without looking at its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpupipe.features.program.expressions import Numbers, Step
from gpupipe.features.statistics.moments import Moments
from gpupipe_kernels.reference import yeo_johnson

FLOAT32_RESOLUTION = 2.0**-22  # of a computed value: some last digits, which rounding may have made


def key(column: Numbers) -> Any:
    """Return what two columns of the same values have in common, whatever their names."""
    start = column.start
    table = None if start.codes is None or start.table is None else (start.codes.index, start.table.tobytes())
    operands = tuple(key(operand) for operand in start.operands)
    return start.op, start.source, start.arg, start.other, start.params, operands, start.call, table, column.steps


def is_source(column: Numbers) -> bool:
    """Return whether a column is one of the table, as it was read."""
    return column.start.op == "LOAD" and not column.steps


def settled(column: Numbers) -> tuple[Numbers, tuple[Step, ...]]:
    """Return the column without its last steps that only fill, move and stretch; and those."""
    n = len(column.steps)
    while n and column.steps[n - 1].op in ("FILL", "CENTER"):
        n -= 1
    return replace(column, steps=column.steps[:n]), column.steps[n:]


def carried(moments: Moments, column: Numbers, steps: Sequence[Step]) -> Moments:
    """Return the moments of a column, of which those before are known, after steps that only fill, move and stretch."""
    resolution = 0.0 if is_source(column) else FLOAT32_RESOLUTION
    for step in steps:
        filled = step.op == "FILL"
        moments = moments.filled(step.params[0], resolution) if filled else moments.centred(*step.params)
    return moments


def keeps_order(step: Step) -> bool:
    """Return whether a step keeps the order of values, so that it takes their median to the median."""
    return step.op != "SINE" and not (step.op == "CENTER" and step.params[1] <= 0)


def followed(column: Numbers, value: float) -> float:
    """Return what the steps of a column make of one value that is not null."""
    for step in column.steps:
        value = _follow(step, value)
    return value


def _follow(step: Step, value: float) -> float:
    if step.op == "CENTER":
        return (value - step.params[0]) * step.params[1]
    if step.op == "CLIP":
        return min(max(value, step.params[0]), step.params[1])
    if step.op == "LOG1P":
        return math.log1p(value) if value > -1 else 0.0
    if step.op == "YEO_JOHNSON":
        return float(yeo_johnson(value, step.params[0]))
    if step.op == "SINE":
        return math.sin(value * step.params[0] + step.params[1])
    return value

"""Properties of transform chains that are derived without reading rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpupipe.features.program.expressions import NumericExpr, Transform
from gpupipe.features.statistics.moments import Moments
from gpupipe_kernels.reference import sine, yeo_johnson

FLOAT32_RESOLUTION = 2.0**-22  # of a computed value: the last digits may be rounding errors


def identity(column: NumericExpr) -> Any:
    """Return a hashable key that is equal for expressions with the same values, regardless of their names."""
    made = column.producer
    table = None if made.codes is None or made.table is None else (made.codes.index, made.table.tobytes())
    operands = tuple(identity(operand) for operand in made.operands)
    return made.op, made.source, made.arg, made.other, made.params, operands, made.call, table, column.transforms


def is_source(column: NumericExpr) -> bool:
    """Return whether an expression is an unchanged column of the table."""
    return column.producer.op == "LOAD" and not column.transforms


def split_affine_tail(column: NumericExpr) -> tuple[NumericExpr, tuple[Transform, ...]]:
    """Split an expression into the part before its trailing FILL and CENTER transforms, and those transforms."""
    n = len(column.transforms)
    while n and column.transforms[n - 1].op in ("FILL", "CENTER"):
        n -= 1
    return replace(column, transforms=column.transforms[:n]), column.transforms[n:]


def transform_moments(moments: Moments, column: NumericExpr, tail: Sequence[Transform]) -> Moments:
    """Return the moments of `column` after the FILL and CENTER transforms of `tail`, given those before."""
    resolution = 0.0 if is_source(column) else FLOAT32_RESOLUTION
    for transform in tail:
        if transform.op == "FILL":
            moments = moments.filled(transform.params[0], resolution)
        else:
            moments = moments.centred(*transform.params)
    return moments


def preserves_order(transform: Transform) -> bool:
    """Return whether a transform is monotonic, so that it maps the median to the median."""
    return transform.op != "SINE" and not (transform.op == "CENTER" and transform.params[1] <= 0)


def apply_transforms(column: NumericExpr, value: float) -> float:
    """Return one non-null value after the transforms of an expression."""
    for transform in column.transforms:
        value = _apply(transform, value)
    return value


def _apply(transform: Transform, value: float) -> float:
    if transform.op == "CENTER":
        return (value - transform.params[0]) * transform.params[1]
    if transform.op == "CLIP":
        return min(max(value, transform.params[0]), transform.params[1])
    if transform.op == "LOG1P":
        return math.log1p(value) if value > -1 else 0.0
    if transform.op == "YEO_JOHNSON":
        return float(yeo_johnson(value, transform.params[0]))
    if transform.op == "SINE":
        return float(sine(value, *transform.params))
    return value

"""Expressions of generated features, built from the instructions of the ordinary ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.features.generation.candidates import FeatureCandidate
from gpupipe.features.ops.arithmetic import center_jointly
from gpupipe.features.program.column_arithmetic import ColumnArithmetic
from gpupipe.features.program.expressions import CategoryExpr, NumericExpr, Producer, combine
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.features.statistics.numbers import NumberStatistics


@dataclass(frozen=True)
class GroupMoments:
    """Moments of a number, shifted by `pivot`, for each code of a category; NaN where no row has both.

    `pivot` is the median, subtracted first in the precision of the input: float32 loses a small spread around a large
    mean. `mean` is that of the shifted number, and `deviation` the population standard deviation, float64, shape
    (n_codes,).
    """

    pivot: float
    mean: Array
    deviation: Array


def express_arithmetic(
    candidate: FeatureCandidate, numbers: Mapping[str, NumericExpr], statistics: NumberStatistics
) -> NumericExpr:
    """Return the expression of a formula of numbers."""
    name = candidate.name
    column = ColumnArithmetic(name, partial(center_jointly, statistics=statistics))  # type: ignore[arg-type]
    a, b = (numbers[name] for name in candidate.columns)
    forms = {"a + b": column.add, "a - b": column.subtract, "a * b": column.multiply, "a / b": column.divide}
    made = column.divide(b, a) if candidate.form == "b / a" else forms[candidate.form](a, b)
    assert isinstance(made, NumericExpr)
    return made


def express_group(
    candidate: FeatureCandidate, number: NumericExpr, group: CategoryExpr, moments: GroupMoments
) -> NumericExpr:
    """Return the expression of a number relative to its group; null in groups without rows."""
    name = candidate.name
    if candidate.form == "ratio":
        return combine(name, "DIVIDE", (number, take(group, moments.mean + moments.pivot, name)))
    shifted = number.then("CENTER", moments.pivot, 1.0)
    difference = combine(name, "SUBTRACT", (shifted, take(group, moments.mean, name)))
    if candidate.form == "difference":
        return difference
    return combine(name, "DIVIDE", (difference, take(group, moments.deviation, name)))


def take(codes: CategoryExpr, table: Array, name: str) -> NumericExpr:
    """Return the lookup of `codes` in `table`, shape (n_codes,) or (folds + 1, n_codes), as a column called `name`."""
    values = np.asarray(table, np.float32)
    if codes.remap is not None:
        values = values[..., codes.remap]
    producer = Producer("TAKE", codes=codes, table=values)
    return NumericExpr(name, codes.inputs, producer, may_be_null=bool(np.isnan(values).any()), root=name)


def learn_group(
    number: NumericExpr, group: CategoryExpr, statistics: NumberStatistics, codes: Array | None = None
) -> GroupMoments:
    """Return the moments over the rows of `statistics`, weighted if these have weights.

    Rows in which either column is null are not counted. `codes` are those of `group`, int64, shape (n_rows,), if they
    have been computed.
    """
    pivot = float(np.float32(statistics.medians([number])[0]))
    to_host = statistics.backend.to_host
    values = to_host(statistics.values([number.then("CENTER", pivot, 1.0)]))[0]
    if codes is None:
        codes = to_host(statistics.values(code_values([group])))[0].astype(np.int64)
    known = ~np.isnan(values)
    weights = (np.ones(len(known)) if statistics.weights is None else to_host(statistics.weights))[known]
    values, codes = values[known].astype(np.float64), codes[known]
    count = np.bincount(codes, weights, group.n_codes)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(codes, weights * values, group.n_codes) / count
        deviation = np.sqrt(np.bincount(codes, weights * (values - mean[codes]) ** 2, group.n_codes) / count)
    # A deviation that is a rounding error of float32 makes the z-score null.
    deviation[deviation <= (np.abs(mean) + np.abs(pivot) * 2.0**-24) * 2.0**-20] = 0.0
    return GroupMoments(pivot, mean, deviation)


def code_values(codes: Sequence[CategoryExpr]) -> list[NumericExpr]:
    """Return expressions of the codes themselves, exact in float32 up to 2**24."""
    return [take(code, np.arange(code.n_codes), code.name) for code in codes]

"""Statistics of numbers by group, learned from the training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from gpupipe.features.ops.base import OPS, SelectingOp
from gpupipe.features.ops.cross import cross_columns
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, NumericExpr, combine, take
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.features.statistics.numbers import NumberStatistics

Stat = Literal["mean", "std", "min", "max", "count", "difference", "ratio", "z_score"]


@OPS.register("group_stats")
class GroupStats(SelectingOp):
    """Add statistics of numbers over the training rows of the same group, or a number relative to them.

    ``group_stats: {columns: amount, by: city, stats: [mean, difference]}`` adds the mean amount of the city, and the
    amount minus it. Groups are the levels of a categorical or boolean column, or the combinations of several, as for
    cross; the rows with a null are a group too. A group that is not in the training rows, or has no number, gets the
    statistics of all training rows, and the count 0. The target takes no part: see target_encode.

    - ``mean``, ``std``, ``min``, ``max``: of the rows in which the column is not null; ``std`` is the population
      standard deviation
    - ``count``: the number of these rows
    - ``difference``, ``ratio``: the number minus, and divided by, the mean; ``z_score``: the difference divided by the
      standard deviation. Null where the number is null or the divisor is 0.

    Row weights (``source.weight``) count in ``mean``, ``std`` and ``count``.

    Output: float32 columns such as ``amount_mean_by_city``, which later ops select like any other column.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"city": ["Rome", "Rome", "Oslo"], "amount": [10.0, 30.0, 7.0]})
        >>> ops = [{"group_stats": {"columns": "amount", "by": "city", "stats": ["mean", "ratio"]}}, {"drop": "city"}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas").fit(frame)
        >>> program.transform(pd.DataFrame({"city": ["Rome", "Bonn"], "amount": [15.0, 15.0]}))
           amount  amount_mean_by_city  amount_ratio_by_city
        0    15.0            20.000000              0.750000
        1    15.0            15.666667              0.957447
    """

    by: str | list[str] = Field(description="Columns whose values, or combinations of values, are the groups.")
    stats: list[Stat] = Field(["mean", "std"], min_length=1, description="Statistics to add.")
    prefix: str = Field("", description="Prefix of the new column names.")

    def named_inputs(self) -> tuple[str, ...]:
        """Return the items of both selections."""
        by = (self.by,) if isinstance(self.by, str) else tuple(self.by)
        return (*super().named_inputs(), *by)

    def apply(self, builder: ProgramBuilder) -> None:
        """Add the statistics of each selected number."""
        groups = builder.select_categories(self.by, "group_stats")
        name = "_and_".join(column.name for column in groups)
        group = groups[0] if len(groups) == 1 else cross_columns(groups, name, None, builder.statistics)
        for number in builder.select_numbers(self.columns, "group_stats"):
            has_extremes = bool({"min", "max"} & set(self.stats))
            moments = learn_group(number, group, builder.statistics, has_extremes).filled()
            for stat in dict.fromkeys(self.stats):
                made = f"{self.prefix}{number.name}_{stat}_by_{name}"
                builder.add(_express(stat, made, number, group, moments, builder))


@dataclass(frozen=True)
class GroupMoments:
    """Moments of a number, shifted by `pivot`, for each code of a category; NaN where no row has both.

    `pivot` is the median, subtracted first in the precision of the input: float32 loses a small spread around a large
    mean. All are float64, shape (n_codes,); `mean`, `low` and `high` are those of the shifted number, and `deviation`
    is the population standard deviation. `count` is the number of rows, or the sum of their weights. `low` and `high`
    are the extremes if they were learned.
    """

    pivot: float
    count: Array
    mean: Array
    deviation: Array
    low: Array
    high: Array

    def filled(self) -> GroupMoments:
        """Return the moments with those of all rows where no row has both."""
        import numpy as np

        known = self.count > 0
        if not known.any():
            return self
        n, mean = self.count[known], self.mean[known]
        total = np.average(mean, weights=n)
        spread = np.sqrt(np.average(self.deviation[known] ** 2 + (mean - total) ** 2, weights=n))
        values = {"mean": total, "deviation": spread, "low": self.low[known].min(), "high": self.high[known].max()}
        each = {name: np.where(known, getattr(self, name), value) for name, value in values.items()}
        return GroupMoments(self.pivot, self.count, **each)


def _express(
    stat: Stat, name: str, number: NumericExpr, group: CategoryExpr, moments: GroupMoments, builder: ProgramBuilder
) -> NumericExpr:
    if stat in ("difference", "ratio", "z_score"):
        return relate(stat, name, number, group, moments)
    tables = {
        "mean": moments.mean + moments.pivot,
        "std": moments.deviation,
        "min": moments.low + moments.pivot,
        "max": moments.high + moments.pivot,
        "count": moments.count,
    }
    found = builder.look_up(group, tables[stat], name)
    return replace(found, inputs=tuple(dict.fromkeys((*number.inputs, *group.inputs))), root=name)


def relate(form: str, name: str, number: NumericExpr, group: CategoryExpr, moments: GroupMoments) -> NumericExpr:
    """Return a number relative to its group: its difference to the mean, ``ratio``, or else ``z_score``."""
    if form == "ratio":
        return combine(name, "DIVIDE", (number, take(group, moments.mean + moments.pivot, name)))
    shifted = number.then("CENTER", moments.pivot, 1.0)
    difference = combine(name, "SUBTRACT", (shifted, take(group, moments.mean, name)))
    if form == "difference":
        return difference
    return combine(name, "DIVIDE", (difference, take(group, moments.deviation, name)))


def learn_group(
    number: NumericExpr, group: CategoryExpr, statistics: NumberStatistics, has_extremes: bool = False
) -> GroupMoments:
    """Return the moments over the rows of `statistics`, weighted if these have weights.

    Rows in which the number is null are not counted.
    """
    import numpy as np

    pivot = float(np.float32(statistics.medians([number])[0]))
    shifted = number.then("CENTER", pivot, 1.0)
    count, total, squares = statistics.group_sums(shifted, group)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count
        deviation = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    # A deviation that is a rounding error of float32 makes the z-score null.
    deviation[deviation <= (np.abs(mean) + np.abs(pivot) * 2.0**-24) * 2.0**-20] = 0.0
    extremes = statistics.group_extremes(shifted, group) if has_extremes else (mean, mean)
    return GroupMoments(pivot, count, mean, deviation, *extremes)

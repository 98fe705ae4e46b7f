"""Calendar parts of timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr, Producer, TimeExpr
from gpupipe.units import DAY_US
from gpupipe_kernels.program.opcodes import CalendarPart

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics

PartName = Literal[
    "year",
    "quarter",
    "month",
    "day",
    "day_of_year",
    "weekday",
    "hour",
    "minute",
    "second",
    "is_weekend",
    "is_month_start",
    "is_month_end",
    "elapsed_days",
]


@OPS.register("datetime_parts")
class DatetimeParts(Op[TimeExpr]):
    """Extract calendar parts of times as numbers: year, month, weekday, hour and others.

    Times are UTC. ``weekday`` counts from Monday, 0; ``month``, ``day``, ``quarter`` and ``day_of_year`` count from 1;
    ``is_weekend``, ``is_month_start`` and ``is_month_end`` are 1 or 0. ``elapsed_days`` is the time since the first one
    of the training rows, in days with fractions. Nulls stay null.

    Output: a column for each part, ``signup_year``, ``signup_weekday``, ...; float32. They represent the time: `auto`
    adds nothing for it.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"signup": pd.to_datetime(["2024-02-29 18:00", "2024-03-02 06:00"])})
        >>> ops = [{"datetime_parts": {"columns": "signup", "parts": ["month", "weekday", "elapsed_days"]}}]
        >>> program = FeatureProgram(ops).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           signup_month  signup_weekday  signup_elapsed_days
        0           2.0             3.0                  0.0
        1           3.0             5.0                  1.5
    """

    parts: list[PartName] = Field(
        ["year", "month", "day", "weekday", "hour"], description="Parts of the time, in UTC, one column for each."
    )

    def select(self, builder: ProgramBuilder) -> list[TimeExpr]:
        return builder.select_times(self.columns, "datetime_parts")

    def fit(self, columns: list[TimeExpr], statistics: Statistics) -> list[State]:
        return [{"origin": statistics.time_range(c.source)[0]} for c in columns]

    def emit(self, column: TimeExpr, state: State, builder: ProgramBuilder) -> None:
        for name in self.parts:
            if name == "elapsed_days":
                start = Producer("ELAPSED", column.source, params=(float(state["origin"]), 1.0 / DAY_US))
            else:
                start = Producer("PART", column.source, arg=int(CalendarPart[name.upper()]))
            made = NumericExpr(f"{column.name}_{name}", column.inputs, start)
            if made.name not in builder.made:
                builder.add(made)
            builder.replace(made, "datetime_parts")

"""Parts of a time stamp as numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr, Producer, TimeExpr
from gpupipe.units import DAY_US
from gpupipe_kernels.program.opcodes import CalendarPart

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics

PartName = Literal[
    "year", "quarter", "month", "day", "day_of_year", "weekday", "hour", "minute", "second",
    "is_weekend", "is_month_start", "is_month_end", "elapsed_days",
]  # fmt: skip


@OPS.register("datetime_parts")
class DatetimeParts(Op[TimeExpr]):
    """Make a number of each part of a time: ``signup_ts_year``, ``signup_ts_weekday`` (0 is Monday), …

    ``elapsed_days`` counts from the first time of the training rows. Times are UTC; null stays null.
    """

    parts: list[PartName] = ["year", "month", "day", "weekday", "hour"]  # noqa: RUF012

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

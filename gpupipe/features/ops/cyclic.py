"""Sine and cosine of what comes round again."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from gpupipe.errors import ConfigError
from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm, NumericExpr, TimeExpr
from gpupipe_kernels.program.opcodes import PART_SIZES, CalendarPart

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics

# part → (the calendar part that is looked up, its values' phase in 0..1)
PERIODS = {
    "minute": (CalendarPart.MINUTE, 60, 0),
    "hour": (CalendarPart.HOUR, 24, 0),
    "weekday": (CalendarPart.WEEKDAY, 7, 0),
    "day": (CalendarPart.DAY, 31, 1),
    "month": (CalendarPart.MONTH, 12, 1),
    "day_of_year": (CalendarPart.DAY_OF_YEAR, 366, 1),
}


@OPS.register("cyclic")
class Cyclic(Op[TimeExpr | NumericExpr]):
    """Put a number or a part of a time on a circle: ``signup_ts_hour_sin`` and ``signup_ts_hour_cos``.

    So 23 o'clock lies beside 0. For a time give `parts`, for a number its `period` (24 for an hour). A null time lies
    in the middle of the circle, as far from every hour.
    """

    parts: list[Literal["minute", "hour", "weekday", "day", "month", "day_of_year"]] = ["hour", "weekday"]  # noqa: RUF012
    period: float | None = Field(None, gt=0, description="Of a numeric column, in its own units.")

    def select(self, builder: ProgramBuilder) -> list[TimeExpr | NumericExpr]:
        columns: list[TimeExpr | NumericExpr] = []
        for column in builder.select_any(self.columns, "cyclic"):
            if not isinstance(column, (TimeExpr, NumericExpr)):
                raise ConfigError(
                    f"cyclic needs times or numbers; {column.name!r} is {column.kind}", names=[column.name]
                )
            if isinstance(column, NumericExpr) and self.period is None:
                raise ConfigError(
                    f"cyclic needs the period of the number {column.name!r}", fix="period: 24", names=[column.name]
                )
            columns.append(column)
        return columns

    def fit(self, columns: list[TimeExpr | NumericExpr], statistics: Statistics) -> list[State]:
        numbers = [column for column in columns if isinstance(column, NumericExpr)]
        lows = {column.name: low for column, (low, _) in zip(numbers, statistics.extremes(numbers), strict=True)}
        return [{"origin": self._origin(lows[c.name])} if isinstance(c, NumericExpr) else {} for c in columns]

    def _origin(self, low: float) -> float:
        """Return a start of a turn near the data: what float32 cannot hold of a large number is whole turns."""
        assert self.period is not None
        return math.floor(low / self.period) * self.period

    def emit(self, column: TimeExpr | NumericExpr, state: State, builder: ProgramBuilder) -> None:
        if isinstance(column, NumericExpr):
            self._lower_number(column, state["origin"], builder)
            return
        for name in self.parts:
            which, period, first = PERIODS[name]
            # Hour and weekday are read off one table of 168, at one index.
            shared = CalendarPart.HOUR_OF_WEEK if {"hour", "weekday"} <= set(self.parts) else which
            part = shared if name in ("hour", "weekday") else which
            codes = part_codes(column, part)
            values = [_value(name, part, i) - first for i in range(PART_SIZES[part])]
            for label, wave in (("sin", math.sin), ("cos", math.cos)):
                table = [0.0, 0.0, 0.0, *(wave(2 * math.pi * v / period) for v in values)]
                builder.put(builder.look_up(codes, table, f"{column.name}_{name}_{label}"), "cyclic")

    def _lower_number(self, column: NumericExpr, origin: float, builder: ProgramBuilder) -> None:
        assert self.period is not None
        for label, phase in (("sin", 0.0), ("cos", math.pi / 2)):
            wave = column.then("CENTER", origin, 1.0).then("SINE", 2 * math.pi / self.period, phase)
            builder.put(replace(wave, name=f"{column.name}_{label}"), "cyclic")


def _value(name: str, part: CalendarPart, index: int) -> int:
    if part is CalendarPart.HOUR_OF_WEEK:
        return index % 24 if name == "hour" else index // 24
    return index


def part_codes(column: TimeExpr, part: CalendarPart) -> CategoryExpr:
    """Return a part of a time as a categorical column: null, or one of the part's values."""
    import numpy as np

    size = PART_SIZES[part]
    step = IndexTerm("INDEX_PART", column.source, part=int(part))
    remap = np.append(np.arange(size) + 3, 0)
    labels = tuple(str(i) for i in range(size))
    return CategoryExpr(f"{column.name}_{part.name.lower()}", column.inputs, (step,), size + 1, labels, remap)

"""Sine and cosine of periodic values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from gpupipe.errors import ConfigError
from gpupipe.features.ops.base import OPS, State
from gpupipe.features.ops.zoned_op import ZonedOp, Zones, zone_table
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm, NumericExpr, TimeExpr
from gpupipe_kernels.program.opcodes import MAX_TURNS, PART_SIZES, CalendarPart

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics

# part -> (calendar part, period, first value)
PERIODS = {
    "minute": (CalendarPart.MINUTE, 60, 0),
    "hour": (CalendarPart.HOUR, 24, 0),
    "weekday": (CalendarPart.WEEKDAY, 7, 0),
    "day": (CalendarPart.DAY, 31, 1),
    "month": (CalendarPart.MONTH, 12, 1),
    "day_of_year": (CalendarPart.DAY_OF_YEAR, 366, 1),
}


@OPS.register("cyclic")
class Cyclic(ZonedOp[TimeExpr | NumericExpr]):
    """Map periodic values to a circle, as sine and cosine, so that 23:00 is next to 0:00.

    ``sin(2 π x / period)`` and ``cos(2 π x / period)``, where x is a part of a time (see `parts`), or a number with the
    given `period`, such as 24 for an hour. A null time becomes (0, 0), the center of the circle; a null number stays
    null. So does a number more than 8,388,608 periods from the smallest training value: there, float32 has fewer than
    two numbers a period.

    Parts of times are in the time zone `zone`, as those of `datetime_parts`, also ``zone: {column: tz}``.

    Output: ``signup_hour_sin`` and ``signup_hour_cos`` for each part of a time, ``angle_sin`` and ``angle_cos`` for a
    number; float32. They represent the column: `auto` adds nothing for it.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"signup": pd.to_datetime(["2024-03-01 00:00", "2024-03-01 03:00", None])})
        >>> ops = [{"cyclic": {"columns": "signup", "parts": ["hour"]}}]
        >>> program = FeatureProgram(ops).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           signup_hour_sin  signup_hour_cos
        0         0.000000         1.000000
        1         0.707107         0.707107
        2         0.000000         0.000000
    """

    parts: list[Literal["minute", "hour", "weekday", "day", "month", "day_of_year"]] = Field(
        ["hour", "weekday"], description="Parts of a time, two columns for each."
    )
    period: float | None = Field(None, gt=0, description="Period of a numeric column, in the units of the column.")

    def select(self, builder: ProgramBuilder) -> list[TimeExpr | NumericExpr]:
        columns: list[TimeExpr | NumericExpr] = []
        for column in builder.select_any(self.columns, "cyclic"):
            if not isinstance(column, (TimeExpr, NumericExpr)):
                raise ConfigError(
                    f"cyclic takes datetime or numeric columns; {column.name!r} is {column.kind}", names=[column.name]
                )
            if isinstance(column, NumericExpr) and self.period is None:
                raise ConfigError(
                    f"cyclic needs a period for the numeric column {column.name!r}",
                    fix="such as period: 24",
                    names=[column.name],
                )
            columns.append(column)
        return columns

    def fit(self, columns: list[TimeExpr | NumericExpr], statistics: Statistics) -> list[State]:
        numbers = [column for column in columns if isinstance(column, NumericExpr)]
        extremes = dict(zip([column.name for column in numbers], statistics.extremes(numbers), strict=True))
        return [
            self._state(*extremes[c.name]) if isinstance(c, NumericExpr) else self.zone_state(c, statistics)
            for c in columns
        ]

    def _state(self, low: float, high: float) -> State:
        """Return a multiple of the period near the data, so that float32 keeps the phase of large numbers.

        Also the number of periods from there to the largest value, if it is too many.
        """
        assert self.period is not None
        origin = math.floor(low / self.period) * self.period
        n_periods = (high - origin) / self.period
        return {"origin": origin} | ({"periods": n_periods} if n_periods > MAX_TURNS else {})

    def emit(self, column: TimeExpr | NumericExpr, state: State, builder: ProgramBuilder) -> None:
        if isinstance(column, NumericExpr):
            if "periods" in state:
                builder.warn(
                    f"cyclic: {column.name!r} spans {state['periods']:.3g} periods, expected at most {MAX_TURNS:,.0f}: "
                    "larger numbers become null; derive a number below the period, or choose a longer period"
                )
            self._emit_number(column, state["origin"], builder)
            return
        zones = self.zones_of(column, state, builder, zone_table)
        for name in self.parts:
            which, period, first = PERIODS[name]
            # Hour and weekday share one index of 168 values.
            shared = CalendarPart.HOUR_OF_WEEK if {"hour", "weekday"} <= set(self.parts) else which
            part = shared if name in ("hour", "weekday") else which
            codes = part_codes(column, part, zones)
            values = [_value(name, part, i) - first for i in range(PART_SIZES[part])]
            for label, wave in (("sin", math.sin), ("cos", math.cos)):
                table = [0.0, 0.0, 0.0, *(wave(2 * math.pi * v / period) for v in values)]
                builder.put(builder.look_up(codes, table, f"{column.name}_{name}_{label}"), "cyclic")

    def _emit_number(self, column: NumericExpr, origin: float, builder: ProgramBuilder) -> None:
        assert self.period is not None
        for label, phase in (("sin", 0.0), ("cos", math.pi / 2)):
            wave = column.then("CENTER", origin, 1.0).then("SINE", 2 * math.pi / self.period, phase)
            builder.put(replace(wave, name=f"{column.name}_{label}"), "cyclic")


def _value(name: str, part: CalendarPart, index: int) -> int:
    if part is CalendarPart.HOUR_OF_WEEK:
        return index % 24 if name == "hour" else index // 24
    return index


def part_codes(column: TimeExpr, part: CalendarPart, zones: Zones) -> CategoryExpr:
    """Return a part of a time as a categorical column."""
    import numpy as np

    size = PART_SIZES[part]
    name = f"INDEX_{zones.prefix}PART"
    step = IndexTerm(name, column.source, part=int(part), edges=zones.table, other=zones.column)
    remap = np.insert(
        np.arange(size) + 3, 0 if zones.prefix else size, 0
    )  # the index of a null is the first, or the last
    labels = tuple(str(i) for i in range(size))
    return CategoryExpr(f"{column.name}_{part.name.lower()}", zones.inputs(column), (step,), size + 1, labels, remap)

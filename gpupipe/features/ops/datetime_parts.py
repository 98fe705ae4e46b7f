"""Calendar parts of timestamps."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from gpupipe.features.ops.base import OPS, State
from gpupipe.features.ops.zoned_op import HOLIDAY_YEARS, ZonedOp, Zones, holiday_table, zone_table
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr, Producer, TimeExpr, combine
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


def _check_day(text: str) -> str:
    with suppress(ValueError):
        if 1900 <= date.fromisoformat(text).year <= 2150:
            return text
    raise ValueError(f"expected a day from 1900 to 2150, such as 2026-12-25; got {text}")


Holiday = Annotated[str, BeforeValidator(str), AfterValidator(_check_day)]  # YAML reads dates


@OPS.register("datetime_parts")
class DatetimeParts(ZonedOp[TimeExpr]):
    """Extract calendar parts of times as numbers: year, month, weekday, hour and others.

    Parts are in the time zone `zone`: by default that of the column, as in Arrow, pandas and polars, or else UTC. Times
    without a zone are in UTC, and are converted if `zone` is stated. Daylight saving time is that of the time zone
    database of the machine that fits, up to 2100, and part of the model. Of two ops with different zones, the later one
    replaces equal parts.

    ``zone: {column: tz}`` takes the zone of each row from the categorical column ``tz``. The parts of a row are null if
    its value is null, is not a time zone, or does not occur in the training rows.

    ``weekday`` counts from Monday, 0; ``month``, ``day``, ``quarter`` and ``day_of_year`` count from 1; ``is_weekend``,
    ``is_month_start`` and ``is_month_end`` are 1 or 0. With `holidays`, so is the further part ``is_holiday``, for days
    in the time zone of the parts. ``elapsed_days`` is the time since the first one of the training rows, in days with
    fractions, in any zone. Nulls stay null.

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

        In New York, the second time is 1:00 in the night:

        >>> zoned = {"datetime_parts": {"columns": "signup", "parts": ["weekday", "hour"], "zone": "America/New_York"}}
        >>> FeatureProgram([zoned]).set_output(transform="pandas").fit_transform(frame)
           signup_weekday  signup_hour
        0             3.0         13.0
        1             5.0          1.0

        The last day of February is a holiday here:

        >>> days = {"datetime_parts": {"columns": "signup", "parts": ["hour"], "holidays": ["2024-02-29"]}}
        >>> FeatureProgram([days]).set_output(transform="pandas").fit_transform(frame)
           signup_hour  signup_is_holiday
        0         18.0                1.0
        1          6.0                0.0

        Each row in its own zone:

        >>> flights = frame.assign(tz=["Asia/Tokyo", "America/New_York"])
        >>> zoned = {"datetime_parts": {"columns": "signup", "parts": ["hour"], "zone": {"column": "tz"}}}
        >>> FeatureProgram([zoned, {"drop": "tz"}]).set_output(transform="pandas").fit_transform(flights)
           signup_hour
        0          3.0
        1          1.0
    """

    parts: list[PartName] = Field(
        ["year", "month", "day", "weekday", "hour"], description="Parts of the time, one column for each."
    )
    holidays: list[Holiday] = Field(
        [], description="Days such as 2026-12-25, from 1900 to 2150; adds the part is_holiday. Default: no such part."
    )

    def select(self, builder: ProgramBuilder) -> list[TimeExpr]:
        return builder.select_times(self.columns, "datetime_parts")

    def fit(self, columns: list[TimeExpr], statistics: Statistics) -> list[State]:
        return [{"origin": statistics.time_range(c.source)[0]} | self.zone_state(c, statistics) for c in columns]

    def emit(self, column: TimeExpr, state: State, builder: ProgramBuilder) -> None:
        zones = self.zones_of(column, state, builder, zone_table)
        for name in self.parts:
            if name == "elapsed_days":
                start = Producer("ELAPSED", column.source, params=(float(state["origin"]), 1.0 / DAY_US))
            else:
                op, part = f"{zones.prefix}PART", CalendarPart[name.upper()]
                start = Producer(op, column.source, arg=int(part), other=zones.column, params=zones.table)
            inputs = column.inputs if name == "elapsed_days" else zones.inputs(column)
            self._add(NumericExpr(f"{column.name}_{name}", inputs, start), builder)
        if self.holidays:
            days = [date.fromisoformat(day) for day in self.holidays]
            moved = self.zones_of(column, state, builder, lambda zone: holiday_table(days, zone))
            self._add(_is_holiday(column, moved), builder)

    def _add(self, made: NumericExpr, builder: ProgramBuilder) -> None:
        if made.name not in builder.made:
            builder.add(made)
        builder.replace(made, "datetime_parts")


def _is_holiday(column: TimeExpr, zones: Zones) -> NumericExpr:
    """Return 1 for times that `holiday_table` moves to `HOLIDAY_YEARS`, 0 for others."""
    year = Producer(
        f"{zones.prefix}PART", column.source, arg=int(CalendarPart.YEAR), other=zones.column, params=zones.table
    )
    moved = NumericExpr(f"{column.name}_is_holiday", zones.inputs(column), year)
    first, last = HOLIDAY_YEARS
    sides = (
        moved.then("CENTER", first, 1.0).then("CLIP", 0.0, 1.0),
        moved.then("CENTER", last, -1.0).then("CLIP", 0.0, 1.0),
    )
    return replace(combine(moved.name, "MULTIPLY", sides), root="")

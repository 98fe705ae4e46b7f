"""Base class of the ops on calendar parts of times, and the time zones that they take the parts in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from operator import sub
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, field_validator

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.features.ops.base import Column, Op, State
from gpupipe.table.schema import FIRST_LEVEL

if TYPE_CHECKING:
    from gpupipe.features.program.builder import ProgramBuilder
    from gpupipe.features.program.expressions import TimeExpr
    from gpupipe.features.statistics.training import Statistics

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = datetime(1800, 1, 1)  # no zone of tzdata changes before 1834
STEP = timedelta(days=3)  # two changes of a zone are at least 3.9 days apart
FAR = timedelta(days=104_000)  # some 285 years: more microseconds are not exact in float64
HOLIDAY_YEARS = (1600, 1880)  # those of 1900 to 2150, moved back
SECOND, MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)
N_STEPS = (datetime(2101, 1, 1) - FIRST) // STEP + 1

ZoneTable = tuple[float, ...]
"""Transitions of a time zone, and the offsets between them, in microseconds: see `Opcode.LOCAL_PART`."""
UTC_TABLE: ZoneTable = (0.0,)
MOST_EXAMPLES = 3  # in a warning about values other than time zones


class Zones(NamedTuple):
    """The time zone of a column of times, or with `column`, those of the codes of that input column.

    `table` is as `Opcode.LOCAL_PART`, or with `column` as `Opcode.ZONED_PART` reads it; empty for UTC. `prefix` is that
    of these instructions.
    """

    table: tuple[float, ...] = ()
    column: str = ""

    @property
    def prefix(self) -> str:
        """The first part of the names of the instructions that read the table."""
        return "ZONED_" if self.column else "LOCAL_" if self.table else ""

    def inputs(self, column: TimeExpr) -> tuple[str, ...]:
        """Return the input columns of the parts of a column."""
        return (*column.inputs, self.column) if self.column else column.inputs


class ZonedOp(Op[Column]):
    """An op on calendar parts of times in a time zone."""

    zone: str | dict[Literal["column"], str] | None = Field(
        None,
        description="Time zone of the parts: America/New_York, +05:30; {column: NAME}: the zone of each row, in a "
        "categorical column. Default: that of the column, else UTC.",
    )

    @field_validator("zone", mode="before")
    @classmethod
    def _check_zone(cls, value: Any) -> Any:
        if isinstance(value, dict) and (list(value) != ["column"] or not isinstance(value["column"], str)):
            raise ValueError(
                f"expected the name of a time zone, or {{column: NAME}} for the zone of each row, got {value}"
            )
        if isinstance(value, str):
            find_zone(value)
        return value

    def named_inputs(self) -> tuple[str, ...]:
        """Return the items of the selection, and the column of time zones."""
        return (*super().named_inputs(), *(self.zone.values() if isinstance(self.zone, dict) else ()))

    def zone_state(self, column: TimeExpr, statistics: Statistics) -> State:
        """Return the time zone of the parts of a column as a state, or the column that has it; an empty one for UTC.

        Raise ConfigError if the zone of the column is unknown.
        """
        if isinstance(self.zone, dict):
            return {"zone": dict(self.zone)}
        own = statistics.table.schema[column.source].dtype.partition("tz=")[2].rstrip("]")
        name = self.zone or own or "UTC"
        try:
            return {"zone": name} if zone_table(name) else {}
        except ValueError as error:
            fix = f"state the zone of the parts: - {self.title()}: {{columns: {column.name}, zone: UTC}}"
            raise ConfigError(f"column {column.name!r}: {error}", fix=fix, names=[column.name]) from None

    def zones_of(
        self, column: TimeExpr, state: State, builder: ProgramBuilder, table_of: Callable[[str], ZoneTable]
    ) -> Zones:
        """Return the tables of the time zones in a state, made by `table_of`, with a note if they are the default.

        Raise ConfigError if a column of time zones does not exist, or is not a categorical input with time zones.
        """
        if isinstance(self.zone, dict):
            return self._zones_in(self.zone["column"], builder, table_of)
        if "zone" in state and self.zone is None:
            builder.note(
                f"calendar parts of {column.name!r} are in its time zone, {state['zone']}; zone: UTC keeps them in UTC"
            )
        return Zones(table_of(state.get("zone", "UTC")))

    def _zones_in(self, name: str, builder: ProgramBuilder, table_of: Callable[[str], ZoneTable]) -> Zones:
        """Return the time zones that a column has in the training rows, with a warning about other values."""
        from gpupipe_kernels.program.time_zones import join_zones

        columns = builder.select_categories([name], self.title())
        if len(columns) != 1:
            what = f"{self.title()}: expected one column of time zones; {name!r} matches {len(columns)}"
            raise ConfigError(what, names=[name])
        (column,) = columns
        source = builder.source_of(column, self.title(), f"move {self.title()} before that op")
        tables: list[ZoneTable] = [()] * FIRST_LEVEL  # null and unseen values have no zone
        for label in column.labels:
            tables.append((table_of(label) or UTC_TABLE) if _look_up(label) else ())
        counts = builder.statistics.counts([column])[0]
        invalid = [i for i, table in enumerate(tables) if not table and i >= FIRST_LEVEL and counts[i]]
        if invalid:
            n, found = int(counts[invalid].sum()), [repr(column.labels[i - FIRST_LEVEL]) for i in invalid]
            examples = ", ".join(found[:MOST_EXAMPLES]) + " and others" * (len(found) > MOST_EXAMPLES)
            what = f"column {name!r}: expected a time zone such as America/New_York, got {examples}"
            if not any(tables):
                raise ConfigError(what, fix="state a column of time zones, or one zone", names=[name])
            builder.warn(f"{what}; parts of times are null in {n:,} training row{'s' * (n != 1)}")
        by_index = tables if column.remap is None else [tables[code] for code in column.remap.tolist()]
        return Zones(join_zones(by_index), source)


@lru_cache(maxsize=1024)  # tzdata has 600 names
def zone_table(name: str) -> ZoneTable:
    """Return the table of a time zone, by the time zone database of this machine; an empty one for UTC.

    It is exact up to the year 2100; then the last offset continues. Raise ValueError as `find_zone`.
    """
    zone = find_zone(name)
    if name == "UTC":
        return ()

    first = FIRST.replace(tzinfo=zone)
    moments = [first + i * STEP for i in range(N_STEPS + 1)]  # their clock shows UTC
    offsets = list(map(sub, map(zone.fromutc, moments), moments))
    changed = [i for i in range(N_STEPS) if offsets[i] != offsets[i + 1]]
    transitions = [_find_change(zone, moments[i], offsets[i]).replace(tzinfo=UTC) - EPOCH for i in changed]
    kept = [offsets[0], *(offsets[i + 1] for i in changed)]
    return tuple(each / MICROSECOND for each in (*transitions, *kept)) if any(kept) else ()


def holiday_table(days: Sequence[date], name: str) -> ZoneTable:
    """Return a table that moves days of a time zone back to `HOLIDAY_YEARS`, and times before all of them ahead.

    Zones are the step functions of time that every interpreter computes. The year then tells holidays apart.
    """
    zone, transitions = find_zone(name), list[float]()
    offsets = [FAR / MICROSECOND]
    for day in sorted(set(days)):
        bounds = (datetime.combine(each, time(), zone) for each in (day, day + timedelta(days=1)))
        start, end = ((each - EPOCH) / MICROSECOND for each in bounds)
        if transitions and transitions[-1] == start:
            transitions[-1] = end
        else:
            transitions += [start, end]
            offsets += [-FAR / MICROSECOND, 0.0]
    return (*transitions, *offsets)


def _find_change(zone: tzinfo, start: datetime, old: timedelta) -> datetime:
    """Return the first second in a step from `start` on whose offset is not `old`."""
    second = bisect_left(
        range(STEP // SECOND), True, key=lambda i: zone.fromutc(start + i * SECOND) - (start + i * SECOND) != old
    )
    return start + second * SECOND


def find_zone(name: str) -> tzinfo:
    """Return a time zone of the time zone database, or an offset such as ``+05:30``.

    Raise ValueError if there is none of that name.
    """
    from zoneinfo import available_timezones

    if (found := _look_up(name)) is not None:
        return found
    known = available_timezones()
    hint = did_you_mean(name, known) if known else "pip install tzdata: this machine has no time zone database"
    advice = hint or "use a name of the IANA time zone database"
    raise ValueError(f"expected a time zone such as America/New_York, got {name!r}; {advice}")


def _look_up(name: str) -> tzinfo | None:
    """Return a time zone or offset; None if there is none of that name."""
    from zoneinfo import ZoneInfo

    with suppress(KeyError, ValueError, OSError):
        return ZoneInfo(name)
    with suppress(ValueError):
        return datetime.strptime(name, "%z").tzinfo
    return None

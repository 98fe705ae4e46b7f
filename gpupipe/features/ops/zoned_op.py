"""Base class of the ops on calendar parts of times, and the time zones that they take the parts in."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from operator import sub
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from gpupipe.errors import ConfigError, did_you_mean
from gpupipe.features.ops.base import Column, Op, State

if TYPE_CHECKING:
    from gpupipe.features.program.builder import ProgramBuilder
    from gpupipe.features.program.expressions import TimeExpr
    from gpupipe.features.statistics.training import Statistics

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = datetime(1800, 1, 1)  # no zone of tzdata changes before 1834
STEP = timedelta(days=3)  # two changes of a zone are at least 3.9 days apart
SECOND, MICROSECOND = timedelta(seconds=1), timedelta(microseconds=1)
N_STEPS = (datetime(2101, 1, 1) - FIRST) // STEP + 1

ZoneTable = tuple[float, ...]
"""Transitions of a time zone, and the offsets between them, in microseconds: see `Opcode.LOCAL_PART`."""


class ZonedOp(Op[Column]):
    """An op on calendar parts of times in a time zone."""

    zone: str | None = Field(
        None, description="Time zone of the parts: America/New_York, +05:30. Default: that of the column, else UTC."
    )

    @field_validator("zone", mode="before")
    @classmethod
    def _check_zone(cls, value: Any) -> Any:
        if isinstance(value, dict):
            raise ValueError(
                f"expected the name of one time zone, got {value}; a zone for each row is not supported: "
                "write local times without a zone to a column before the run"
            )
        if isinstance(value, str):
            find_zone(value)
        return value

    def zone_state(self, column: TimeExpr, statistics: Statistics) -> State:
        """Return the time zone of the parts of a column as a state; an empty one for UTC.

        Raise ConfigError if the zone of the column is unknown.
        """
        own = statistics.table.schema[column.source].dtype.partition("tz=")[2].rstrip("]")
        name = self.zone or own or "UTC"
        try:
            return {"zone": name} if zone_table(name) else {}
        except ValueError as error:
            fix = f"state the zone of the parts: - {self.title()}: {{columns: {column.name}, zone: UTC}}"
            raise ConfigError(f"column {column.name!r}: {error}", fix=fix, names=[column.name]) from None

    def zone_of(self, column: TimeExpr, state: State, builder: ProgramBuilder) -> ZoneTable:
        """Return the table of the zone in a state, with a note if it is the default; an empty one for UTC."""
        if "zone" in state and self.zone is None:
            builder.note(
                f"calendar parts of {column.name!r} are in its time zone, {state['zone']}; zone: UTC keeps them in UTC"
            )
        return zone_table(state.get("zone", "UTC"))


@lru_cache(maxsize=64)
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
    from zoneinfo import ZoneInfo, available_timezones

    with suppress(KeyError, ValueError, OSError):
        return ZoneInfo(name)
    with suppress(ValueError):
        found = datetime.strptime(name, "%z").tzinfo
        assert found is not None
        return found
    known = available_timezones()
    hint = did_you_mean(name, known) if known else "pip install tzdata: this machine has no time zone database"
    advice = hint or "use a name of the IANA time zone database"
    raise ValueError(f"expected a time zone such as America/New_York, got {name!r}; {advice}")

"""Calendar parts of time stamps in integer arithmetic, for scalars in kernels and for arrays.

Times are int64 microseconds since 1970-01-01 UTC. The civil calendar is proleptic Gregorian, exact for every int64
time, after Howard Hinnant, "chrono-compatible low-level date algorithms" (days_from_civil and civil_from_days).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from gpupipe_kernels.program.opcodes import NAT, CalendarPart
from gpupipe_kernels.program.time_zones import split_zones

MICROSECONDS_A_DAY = 86_400_000_000
BUCKET_BITS = 38
MOST_BUCKETS = 2**19  # 4 MiB of counts, which several zones share by wider buckets


def civil(days: Any) -> tuple[Any, Any, Any, Any]:
    """Return (year, month 1-12, day 1-31, day 0-365 of the year starting in March) for days since 1970-01-01."""
    z = days + 719_468  # days since 0000-03-01
    era = z // 146_097
    day_of_era = z - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153  # March is 0
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    late = shifted_month // 10  # 1 in January and February
    month = shifted_month + 3 - 12 * late
    year = year_of_era + era * 400 + late
    return year, month, day, day_of_year


class TimeZone(NamedTuple):
    """One or several time zones, with the position in their transitions by bucket of 2**`bits` microseconds.

    `counts` are the transitions before each bucket, of which a zone has `width`, from bucket `first` on. `n_steps` is
    the largest number of transitions in a bucket: 1 in all zones of tzdata, whose buckets have 3.2 days. `transitions`
    and `offsets` of each zone end with as many transitions that no time passes. The offset of an unknown zone is NAT.
    """

    first: int
    bits: int
    width: int
    n_steps: int
    counts: Any
    transitions: Any
    offsets: Any

    @staticmethod
    @lru_cache(maxsize=32)
    def of(table: tuple[float, ...], has_several: bool = False) -> TimeZone:
        """Return the time zone of a table as `Opcode.LOCAL_PART` reads it, or as `Opcode.ZONED_PART` does."""
        tables = split_zones(np.array(table)) if has_several else [table]
        zones = [np.array(zone if len(zone) else [NAT]).astype(np.int64) for zone in tables]
        passed = [zone[: len(zone) // 2] for zone in zones]
        every = np.concatenate(passed) if any(map(len, passed)) else np.zeros(1, np.int64)
        low, high, bits = int(every.min()), int(every.max()), BUCKET_BITS
        while len(zones) * ((high - low) >> bits) > MOST_BUCKETS:
            bits += 1
        starts = np.arange(low >> bits, (high >> bits) + 2) << bits
        counts = [np.searchsorted(each, starts) for each in passed]
        n_steps = int(np.diff(counts).max())
        begins = np.cumsum([0, *(len(each) + n_steps + 1 for each in passed)])
        padded = [np.pad(each, (0, n_steps + 1), constant_values=np.iinfo(np.int64).max) for each in passed]
        offsets = [np.pad(zone[len(zone) // 2 :], (0, n_steps), "edge") for zone in zones]
        found = np.concatenate([each + begin for each, begin in zip(counts, begins.tolist(), strict=False)])
        return TimeZone(low >> bits, bits, len(starts), n_steps, found, *map(np.concatenate, (padded, offsets)))


def local_times(time: Any, zone: TimeZone, xp: Any = np, index: Any = None) -> Any:
    """Return int64 times, of the namespace `xp`, in a time zone, or those of `index`; NAT where one is missing."""
    counts, transitions, offsets = map(xp.asarray, zone[4:])
    bucket = xp.clip((time >> zone.bits) - zone.first, 0, zone.width - 1)
    found = counts.take(bucket if index is None else bucket + index * zone.width)
    for _ in range(zone.n_steps):
        found += time >= transitions.take(found)
    offset = offsets.take(found)
    is_missing = time == NAT if index is None else (time == NAT) | (offset == NAT)
    local = time + offset
    xp.copyto(local, NAT, where=is_missing)
    return local


def _is_leap(year: Any) -> Any:
    by_4 = 1 - ((year - year // 4 * 4) + 3) // 4
    by_100 = 1 - ((year - year // 100 * 100) + 99) // 100
    by_400 = 1 - ((year - year // 400 * 400) + 399) // 400
    return by_4 - by_100 + by_400


def part(time: Any, which: int) -> Any:
    """Return a `CalendarPart` of `time`, int64 microseconds; the caller masks NAT."""
    if which == CalendarPart.HOUR:
        hours = time // 3_600_000_000
        return hours - hours // 24 * 24
    if which == CalendarPart.HOUR_OF_WEEK:
        hours = time // 3_600_000_000 + 72  # 1970-01-01 was a Thursday
        return hours - hours // 168 * 168
    if which == CalendarPart.MINUTE:
        minutes = time // 60_000_000
        return minutes - minutes // 60 * 60
    if which == CalendarPart.SECOND:
        seconds = time // 1_000_000
        return seconds - seconds // 60 * 60
    days = time // MICROSECONDS_A_DAY
    if hasattr(days, "astype"):
        days = days.astype("int32")  # the values fit into int32, which NumPy divides in a third of the time
    weekday = days + 3 - (days + 3) // 7 * 7
    if which == CalendarPart.WEEKDAY:
        return weekday
    if which == CalendarPart.IS_WEEKEND:
        return weekday // 5
    return _civil_part(days, which)


def _civil_part(days: Any, which: int) -> Any:
    year, month, day, march_day = civil(days)
    if which == CalendarPart.YEAR:
        return year
    if which == CalendarPart.QUARTER:
        return (month + 2) // 3
    if which == CalendarPart.MONTH:
        return month
    if which == CalendarPart.DAY:
        return day
    if which == CalendarPart.IS_MONTH_START:
        return 1 // day
    if which == CalendarPart.DAY_OF_YEAR:
        early = (14 - month) // 12  # 1 in January and February
        return march_day + 1 + (1 - early) * (59 + _is_leap(year)) - early * 306
    following = civil(days + 1)
    return 1 // following[2]  # IS_MONTH_END: tomorrow is the first

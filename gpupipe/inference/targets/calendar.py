"""Calendar parts of times in integer arithmetic, which each target writes in its own language."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from gpupipe_kernels.formulas.calendar import MICROSECONDS_A_DAY
from gpupipe_kernels.program.opcodes import CalendarPart

HOUR = 3_600_000_000  # microseconds
# Of a part that repeats: its unit in microseconds, the number of units in a cycle, and the unit at the start of 1970,
# which was a Thursday.
CYCLES = {
    CalendarPart.SECOND: (1_000_000, 60, 0), CalendarPart.MINUTE: (60_000_000, 60, 0),
    CalendarPart.HOUR: (HOUR, 24, 0), CalendarPart.HOUR_OF_WEEK: (HOUR, 168, 72),
    CalendarPart.WEEKDAY: (MICROSECONDS_A_DAY, 7, 3),
}  # fmt: skip

Integer = TypeVar("Integer")


class Integers(ABC, Generic[Integer]):
    """Arithmetic on int64 values in the language of a target."""

    @abstractmethod
    def plus(self, x: Integer, y: Integer | int) -> Integer:
        """Return x + y."""

    @abstractmethod
    def minus(self, x: Integer, y: Integer) -> Integer:
        """Return x - y."""

    @abstractmethod
    def times(self, x: Integer, y: int) -> Integer:
        """Return x * y."""

    @abstractmethod
    def positive_quotient(self, x: Integer, y: int) -> Integer:
        """Return x, which is not negative or a multiple of y, divided by y, rounded down."""

    @abstractmethod
    def remainder(self, x: Integer, y: int) -> Integer:
        """Return x modulo y, from 0 to y - 1."""

    @abstractmethod
    def is_equal(self, x: Integer, y: int) -> Integer:
        """Return 1 where x is y, else 0."""

    @abstractmethod
    def if_less(self, x: Integer, y: int, yes: Integer, no: Integer) -> Integer:
        """Return `yes` where x is less than y, else `no`."""

    @abstractmethod
    def named(self, x: Integer) -> Integer:
        """Return a value that is read more than once."""

    def quotient(self, x: Integer, y: int) -> Integer:
        """Return x divided by y, rounded down; targets differ in how they round negative quotients."""
        return self.positive_quotient(self.minus(x, self.remainder(x, y)), y)  # exact, whatever its sign


def calendar_part(n: Integers[Integer], time: Integer, part: CalendarPart) -> Integer:
    """Return a calendar part of int64 microseconds since 1970, in the words of `gpupipe_kernels.formulas.calendar`."""
    if part in CYCLES:
        unit, n_units, shift = CYCLES[part]
        shifted = n.plus(time, shift * unit) if shift else time
        return n.positive_quotient(n.remainder(shifted, n_units * unit), unit)
    if part == CalendarPart.IS_WEEKEND:
        return n.positive_quotient(calendar_part(n, time, CalendarPart.WEEKDAY), 5)
    days = n.named(n.quotient(time, MICROSECONDS_A_DAY))
    year, month, day, march_day = _civil(n, days)
    if part == CalendarPart.YEAR:
        return year
    if part == CalendarPart.QUARTER:
        return n.positive_quotient(n.plus(month, 2), 3)
    if part == CalendarPart.MONTH:
        return month
    if part == CalendarPart.DAY:
        return day
    if part == CalendarPart.IS_MONTH_START:
        return n.is_equal(day, 1)
    if part == CalendarPart.IS_MONTH_END:
        return n.is_equal(_civil(n, n.named(n.plus(days, 1)))[2], 1)
    january_first = n.plus(march_day, -305)  # January 1 is day 306 of the year that starts in March
    later = n.plus(n.plus(march_day, 60), _is_leap(n, year))
    return n.if_less(month, 3, january_first, later)


def _civil(n: Integers[Integer], days: Integer) -> tuple[Integer, Integer, Integer, Integer]:
    """Return year, month, day and day of the year that starts in March; see `gpupipe_kernels.formulas.calendar`."""
    per = n.positive_quotient
    shifted = n.named(n.plus(days, 719_468))  # days since 0000-03-01
    era, day_of_era = n.quotient(shifted, 146_097), n.named(n.remainder(shifted, 146_097))
    whole = n.plus(n.minus(day_of_era, per(day_of_era, 1_460)), per(day_of_era, 36_524))
    year_of_era = n.named(per(n.minus(whole, per(day_of_era, 146_096)), 365))
    before = n.minus(n.plus(n.times(year_of_era, 365), per(year_of_era, 4)), per(year_of_era, 100))
    march_day = n.named(n.minus(day_of_era, before))
    shifted_month = n.named(per(n.plus(n.times(march_day, 5), 2), 153))  # March is 0
    day = n.plus(n.minus(march_day, per(n.plus(n.times(shifted_month, 153), 2), 5)), 1)
    late = n.named(per(shifted_month, 10))  # 1 in January and February
    month = n.named(n.minus(n.plus(shifted_month, 3), n.times(late, 12)))
    return n.named(n.plus(n.plus(year_of_era, n.times(era, 400)), late)), month, n.named(day), march_day


def _is_leap(n: Integers[Integer], year: Integer) -> Integer:
    by_4, by_100, by_400 = (n.is_equal(n.remainder(year, cycle), 0) for cycle in (4, 100, 400))
    return n.plus(n.minus(by_4, by_100), by_400)

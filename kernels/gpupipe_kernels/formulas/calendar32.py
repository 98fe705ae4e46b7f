"""Calendar parts for compiled code: the formulas of `calendar` in 32-bit arithmetic without branches.

The host vectorises them, and a device has 32-bit integer units only. One 64-bit division remains: time by day.
Constants are added to keep numbers positive, because dividing positive numbers needs no correction.
"""

from __future__ import annotations

from numpy import int32, int64, uint32, uint64

from gpupipe_kernels.launch import formula
from gpupipe_kernels.program.opcodes import CalendarPart

DAY = 86_400_000_000
UNITS = DAY >> 13  # microseconds per day, divided by 2**13
DAYS_BEFORE = 106_751_992  # offset to 1970 in int64 microseconds
ERAS = 800  # eras of 400 years to add: more than an int64 of microseconds can hold before 1970
DAYS_AN_ERA = 146_097
EPOCH = uint32(719_468 + ERAS * DAYS_AN_ERA)  # days from then to 1970
THURSDAY = uint32(7 * 16_000_000 + 3)


@formula
def day_of(time):
    """Return the days since 1970-01-01 of any int64 time; they fit into an int32."""
    # A shift rounds down like a floor division, also for negative times.
    positive = uint64(int64(time >> int64(13)) + int64(DAYS_BEFORE * UNITS))
    return int32(uint64(positive // uint64(UNITS))) - int32(DAYS_BEFORE)


@formula
def clock_part(time, day, which):
    """Return the hour, minute, second or a part of the week, from a time and its day."""
    rest = time - int64(day) * int64(DAY)
    # Shift out the factors of two: the remaining time of day then fits into 32 bits.
    hour = uint32(uint32(rest >> int64(10)) // uint32(3_515_625))
    minute = uint32(uint32(rest >> int64(8)) // uint32(234_375))
    second = uint32(uint32(rest >> int64(6)) // uint32(15_625))
    weekday = uint32(uint32(uint32(day) + THURSDAY) % uint32(7))
    found = hour
    found = uint32(minute % uint32(60)) if which == CalendarPart.MINUTE else found
    found = uint32(second % uint32(60)) if which == CalendarPart.SECOND else found
    found = weekday if which == CalendarPart.WEEKDAY else found
    found = uint32(weekday // uint32(5)) if which == CalendarPart.IS_WEEKEND else found
    found = uint32(weekday * uint32(24) + hour) if which == CalendarPart.HOUR_OF_WEEK else found
    return int32(found)


@formula
def date_part(day, which):
    """Return a part of a date, given as days since 1970-01-01."""
    z = uint32(uint32(day) + EPOCH)
    era = uint32(z // uint32(DAYS_AN_ERA))
    e = uint32(z - uint32(era * uint32(DAYS_AN_ERA)))  # day of the era
    leaps = uint32(uint32(e // uint32(36_524)) - uint32(e // uint32(1_460)) - uint32(e // uint32(146_096)))
    year = uint32(uint32(e + leaps) // uint32(365))  # of the era; it begins in March
    past = uint32(uint32(365) * year + uint32(year >> uint32(2)) - uint32(year // uint32(100)))
    march_day = uint32(e - past)
    shifted = uint32(uint32(uint32(5) * march_day + uint32(2)) // uint32(153))  # March is 0
    first = uint32(uint32(uint32(153) * shifted + uint32(2)) // uint32(5))
    following = uint32(uint32(uint32(153) * shifted + uint32(155)) // uint32(5))
    late = uint32(1) if shifted > uint32(9) else uint32(0)  # January and February
    civil = uint32(year + late)
    is_century = civil == uint32(100) or civil == uint32(200) or civil == uint32(300)
    leap = uint32(1) if uint32(civil & uint32(3)) == uint32(0) and not is_century else uint32(0)
    last = uint32(364) + leap if shifted == uint32(11) else following - uint32(1)
    month = uint32(shifted - uint32(9)) if late == uint32(1) else uint32(shifted + uint32(3))
    of_year = uint32(march_day - uint32(305)) if late == uint32(1) else uint32(march_day + uint32(60) + leap)
    found = int32(civil) + int32(int32(400) * int32(int32(era) - int32(ERAS)))
    found = int32(uint32(month + uint32(2)) // uint32(3)) if which == CalendarPart.QUARTER else found
    found = int32(month) if which == CalendarPart.MONTH else found
    found = int32(march_day - first) + int32(1) if which == CalendarPart.DAY else found
    found = int32(of_year) if which == CalendarPart.DAY_OF_YEAR else found
    found = int32(march_day == first) if which == CalendarPart.IS_MONTH_START else found
    found = int32(march_day == last) if which == CalendarPart.IS_MONTH_END else found
    return int32(found)


@formula
def is_of_clock(which):
    """Return whether a part is computed by `clock_part` (otherwise by `date_part`)."""
    return which >= CalendarPart.WEEKDAY and which <= CalendarPart.IS_WEEKEND


@formula
def part(time, which):
    """Return calendar part `which` of an int64 time that is not NAT."""
    day = day_of(time)
    return clock_part(time, day, which) if is_of_clock(which) else date_part(day, which)

"""Parsing and formatting of sizes, durations and times. Standard library only.

Sizes are bytes. Times are microseconds since 1970-01-01 UTC, as in an encoded table, and durations compared with them
are microseconds too.
"""

from __future__ import annotations

import math
import re
import string
from datetime import datetime, timedelta
from typing import Literal

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
SIZE_UNITS = {
    "": 1, "B": 1, "KIB": KIB, "MIB": MIB, "GIB": GIB, "TIB": TIB,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip

DAY_SECONDS = 86_400
DAY_US = DAY_SECONDS * 1_000_000
DURATION_UNITS_US = {
    "us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": DAY_US, "w": 7 * DAY_US,
}  # fmt: skip
LONGEST_US = 2**62  # 146,000 years, the longest window that the kernels support

FileMode = Literal[600, 640, 644, 660, 664, 666]
"""Permissions of files: octal digits, as one types them after ``chmod``."""

TimeUnit = Literal["days", "hours", "minutes", "seconds"]
TIME_UNITS_US: dict[TimeUnit, int] = {
    "days": DAY_US,
    "hours": DURATION_UNITS_US["h"],
    "minutes": DURATION_UNITS_US["min"],
    "seconds": DURATION_UNITS_US["s"],
}
TICKS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Units of times in Arrow and NumPy."""

MISSING = "–"

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|w)")
_EPOCH = datetime(1970, 1, 1)
_ERA_US = 146_097 * DAY_US  # 400 years, after which the calendar repeats

_HOUR = "(?:[01][0-9]|2[0-3])"
_SIXTY = "[0-5][0-9]"
_FRACTION = "(?:[.,][0-9]{1,9})?"
_CLOCK = (
    f"{_HOUR}(?::{_SIXTY}(?::{_SIXTY}{_FRACTION})?|{_SIXTY}(?:{_SIXTY}{_FRACTION})?)?"
    f"(?:[Zz]|[+-]{_HOUR}(?::?{_SIXTY})?)?"
)
LEAP_YEAR = "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
# `~` is the hyphen of the extended form.
_DATE = "[0-9]{4}~(?:0[1-9]|1[0-2])~(?:0[1-9]|[12][0-9]|3[01])"  # for speed: `fromisoformat` knows the calendar
_CALENDAR_DATE = (
    "(?:[0-9]{4}~(?:(?:0[13578]|1[02])~(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)~(?:0[1-9]|[12][0-9]|30)"
    f"|02~(?:0[1-9]|1[0-9]|2[0-8]))|{LEAP_YEAR}~02~29)"
)


def _iso_pattern(date: str) -> str:
    return f"{date.replace('~', '-')}(?:[Tt ]{_CLOCK})?|{date.replace('~', '')}[Tt ]{_CLOCK}"


ISO_PATTERN = _iso_pattern(_CALENDAR_DATE)
"""ISO 8601 calendar times as a regular expression of JSON Schema, without surrounding blanks."""
ISO_EXAMPLE = "2024-01-31 or 2024-01-31T05:06:07Z"
_MAY_BE_ISO = re.compile(_iso_pattern(_DATE)).fullmatch


def parse_size(text: str) -> int:
    """Return a size such as ``16GiB``, ``500 MB`` or ``1024`` in bytes.

    Raise ValueError if the text is not a number with an optional known unit.
    """
    number = text.strip().rstrip(string.ascii_letters).rstrip()
    unit = text.strip()[len(number) :].strip().upper()
    try:
        return int(float(number) * SIZE_UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise ValueError(f"expected a size such as 20GiB or 500MB, got {text!r}") from None


def parse_duration_us(text: str, *, allow_zero: bool = False) -> int:
    """Return a duration such as ``30d``, ``12h`` or ``90min`` in microseconds.

    Raise ValueError if the text is not a duration, or is too short or too long.

    `allow_zero`: also accept a zero duration, with or without a unit: ``0``, ``0d``.
    """
    if allow_zero and text.strip() == "0":
        return 0
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        units = ", ".join(DURATION_UNITS_US)
        raise ValueError(f"expected a duration such as 30d or 90min (units: {units}), got {text!r}")
    us = float(match[1]) * DURATION_UNITS_US[match[2]]
    if us >= LONGEST_US:
        raise ValueError(f"expected a duration of less than 146,000 years, got {text!r}")
    if not round(us) and not (allow_zero and not us):
        raise ValueError(f"expected a duration of at least 1us, got {text!r}")
    return round(us)


def iso_us(text: str) -> int | None:
    """Return an ISO 8601 time in microseconds since 1970-01-01 UTC, None for another text.

    Calendar dates of the years 0000 to 9999, alone or with a time of day after ``T`` or a blank: hours, with minutes,
    with seconds, with a fraction of 1 to 9 digits that is truncated to microseconds. The offset is ``Z``, ``+07``,
    ``+0700`` or ``+07:00``; a time without one is in UTC. The basic form (``20240131T050607``) needs a time of day:
    digits alone are a number. Week and ordinal dates, 24:00 and leap seconds are not read.

    >>> iso_us("1970-01-01T07:00+07"), iso_us("1970-01-01 00:00:00,25"), iso_us("19700102"), iso_us("02/01/1970")
    (0, 250000, None, None)
    """
    text = text.strip()
    if not _MAY_BE_ISO(text):
        return None
    is_year_0 = text.startswith("0000")  # which Python's datetime does not have
    try:
        moment = datetime.fromisoformat(f"0400{text[4:]}".upper() if is_year_0 else text.upper())
    except ValueError:  # such as February 30
        return None
    return epoch_us(moment) - is_year_0 * _ERA_US


def parse_time_us(text: str) -> int:
    """Return an ISO 8601 date or time, as `iso_us` reads it, in microseconds since 1970-01-01 UTC.

    Raise ValueError if the text is not an ISO date or time.

    Examples
    --------
    >>> parse_time_us("1970-01-02")
    86400000000
    """
    micros = iso_us(text)
    if micros is None:
        raise ValueError(f"expected an ISO date or time such as 2011-09-10 or 2011-09-10T12:00:00, got {text!r}")
    return micros


def is_number(text: str) -> bool:
    """Return whether Python's ``float`` can parse a text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_time(text: str) -> bool:
    """Return whether a text is an ISO date or time."""
    return iso_us(text) is not None


def epoch_us(moment: datetime) -> int:
    """Return a time in microseconds since 1970-01-01 UTC; without a zone it is read as UTC."""
    offset = moment.utcoffset()
    since = moment.replace(tzinfo=None) - _EPOCH - (offset or timedelta(0))
    return since.days * DAY_US + since.seconds * 1_000_000 + since.microseconds


def format_size(n_bytes: float | None) -> str:
    """Format a number of bytes: ``512 B``, ``1.5 KiB``, ``2.3 GiB``; a dash for None."""
    if n_bytes is None:
        return MISSING
    if n_bytes < KIB:
        return f"{n_bytes:.0f} B"
    power = min(int(math.log(n_bytes, KIB)), 4)
    return f"{n_bytes / KIB**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


def format_duration(seconds: float | None) -> str:
    """Format seconds: ``12 ms``, ``1.24 s``, ``2 min 05 s``, ``3 h 07 min``; a dash for None."""
    if seconds is None:
        return MISSING
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.0095 else f"{seconds * 1000:.1f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def format_latency(seconds: float | None) -> str:
    """Format a short duration in three digits and the units of settings: ``85.3 us``, ``1.24 ms``, ``2 ms``; a dash
    for None.
    """
    if seconds is None:
        return MISSING
    for unit, scale in (("us", 1e6), ("ms", 1e3)):
        if float(text := f"{seconds * scale:.3g}") < 1000:
            return f"{text} {unit}"
    return format_duration(seconds)


def format_whole_seconds(seconds: float) -> str:
    """Format the elapsed time of something still running in whole seconds: ``0 s``, ``12 s``, ``2 min 05 s``."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else format_duration(whole)


def format_rate(rows_per_second: float | None) -> str:
    """Format rows per second: ``820 rows/s``, ``235k rows/s``, ``1.2M rows/s``; a dash for None."""
    if rows_per_second is None:
        return MISSING
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rows_per_second >= unit:
            scaled = rows_per_second / unit
            return f"{scaled:.{0 if scaled >= 100 else 1}f}{name} rows/s"
    return f"{rows_per_second:.0f} rows/s"

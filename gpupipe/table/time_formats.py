"""Formats of dates in text and units of times in numbers, inferred from values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from gpupipe.units import TICKS_PER_SECOND, epoch_us

FORMATS = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y",
    "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%d.%m.%Y", "%d-%m-%Y", "%Y%m%d",
    "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z",
)  # fmt: skip
MORE_FORMATS = (
    "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%d-%m-%Y %H:%M:%S",
    "%m/%d/%y", "%d/%m/%y", "%m/%d/%y %H:%M", "%d/%m/%y %H:%M", "%d.%m.%y", "%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M %p",
    "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S%z", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M",
    "%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%y", "%a %b %d %H:%M:%S %Y",
)  # fmt: skip
ALL_FORMATS = tuple(dict.fromkeys((*FORMATS, *MORE_FORMATS)))
FIRST_LOOK = 50  # so many texts of a column are tried first: most columns are no dates
MOST_TEXTS = 200  # that are tried in every format where none fits all
LEAST_SHARE = 0.8  # of the texts: a format that fits so many is meant, and the others are wrong or mean "missing"
SECONDS = (631_152_000, 2_524_608_000)  # 1990 to 2050


def guess_format(values: set[str]) -> str | None:
    """Return the first of `FORMATS` that every value is written in, or None."""
    for time_format in FORMATS:
        if values and all(micros(v, time_format) is not None for v in values):
            return time_format
    return None


def micros(text: str, time_format: str) -> int | None:
    """Return the time that `text` says, in microseconds since 1970-01-01 UTC, or None if it does not fit."""
    try:
        stamp = datetime.strptime(text.strip(), time_format)
    except ValueError:
        return None
    return epoch_us(stamp)


def time_formats(texts: Sequence[str]) -> list[str]:
    """Return the formats that every text is written in, the likeliest first; more than one if day and month agree.

    >>> time_formats(["03/11/2011", "25/11/2011"])
    ['%d/%m/%Y']
    """
    if not texts or not all(any(map(str.isdigit, text)) for text in texts[:FIRST_LOOK]):
        return []
    if all(text.isdecimal() for text in texts[:FIRST_LOOK]):
        return []  # 20110131 is read as a number
    likely = [f for f in ALL_FORMATS if all(_fits(text, f) for text in texts[:FIRST_LOOK])]
    return [f for f in likely if all(_fits(text, f) for text in texts[FIRST_LOOK:])]


def time_unit(low: float, high: float) -> str | None:
    """Return the unit in which numbers from `low` to `high` count from 1970, if that makes them times of our days."""
    for unit, per_second in TICKS_PER_SECOND.items():
        if SECONDS[0] * per_second <= low and high <= SECONDS[1] * per_second:
            return unit
    return None


def declare_texts(name: str, texts: Sequence[str]) -> str:
    """Return advice to declare a column of text as times, in the format of its values; ``""`` if they are none."""
    formats = time_formats(texts)
    if formats:
        advice = _declaration(name, formats[0])
        if len(formats) > 1:
            advice += f"; {texts[0]!r} could also be {formats[1]!r}"
        return advice
    texts = texts[:MOST_TEXTS]
    fitting = {f: [text for text in texts if _fits(text, f)] for f in ALL_FORMATS}
    best = max(fitting, key=lambda f: len(fitting[f]))
    if not texts or len(fitting[best]) < LEAST_SHARE * len(texts):
        return ""
    odd = next(text for text in texts if text not in set(fitting[best]))
    return f"{_declaration(name, best)}, and correct values such as {odd!r}, or list them in source.csv.null_values"


def declare_numbers(name: str, low: float, high: float) -> str:
    """Return advice to declare a column of numbers as times, in the unit that suits their range."""
    unit = time_unit(low, high)
    if unit is not None:
        return _declaration(name, unit)
    return (
        f"select others: as times, {low:g} to {high:g} are counted in none of {', '.join(TICKS_PER_SECOND)} since 1970"
    )


def _declaration(name: str, time_format: str) -> str:
    return f"declare source.schema: {{{name}: {{kind: datetime, format: '{time_format}'}}}}"


def _fits(text: str, time_format: str) -> bool:
    return micros(text, time_format) is not None

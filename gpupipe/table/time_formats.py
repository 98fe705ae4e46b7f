"""Inference of time formats in text, and of time units in numbers."""

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
FIRST_LOOK = 50  # number of texts tried first, because most columns are not dates
MOST_TEXTS = 200  # number of texts tried in every format if none matches all
LEAST_SHARE = 0.8  # if a format matches at least this share of the texts, the others are errors or missing values
SECONDS = (631_152_000, 2_524_608_000)  # 1990 to 2050


def guess_format(values: set[str]) -> str | None:
    """Return the first of `FORMATS` that every value matches, or None."""
    for time_format in FORMATS:
        if values and all(micros(v, time_format) is not None for v in values):
            return time_format
    return None


def micros(text: str, time_format: str) -> int | None:
    """Return `text` as microseconds since 1970-01-01 UTC, or None if it does not match the format."""
    try:
        stamp = datetime.strptime(text.strip(), time_format)
    except ValueError:
        return None
    return epoch_us(stamp)


def time_formats(texts: Sequence[str]) -> list[str]:
    """Return the formats that every text matches, the likeliest first; several if day and month are ambiguous.

    >>> time_formats(["03/11/2011", "25/11/2011"])
    ['%d/%m/%Y']
    """
    if not texts or not all(any(map(str.isdigit, text)) for text in texts[:FIRST_LOOK]):
        return []
    if all(text.isdecimal() for text in texts[:FIRST_LOOK]):
        return []  # 20110131 is a number
    likely = [f for f in ALL_FORMATS if all(_fits(text, f) for text in texts[:FIRST_LOOK])]
    return [f for f in likely if all(_fits(text, f) for text in texts[FIRST_LOOK:])]


def time_unit(low: float, high: float) -> str | None:
    """Return the unit in which `low` to `high`, counted from 1970, are times between 1990 and 2050, or None."""
    for unit, per_second in TICKS_PER_SECOND.items():
        if SECONDS[0] * per_second <= low and high <= SECONDS[1] * per_second:
            return unit
    return None


def declare_texts(name: str, texts: Sequence[str]) -> str:
    """Return advice to declare a text column as times in the format of its values; ``""`` if they are not times."""
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
    return f"{_declaration(name, best)}, and correct values such as {odd!r} or add them to source.csv.null_values"


def declare_numbers(name: str, low: float, high: float) -> str:
    """Return advice to declare a numeric column as times, in the unit that matches their range."""
    unit = time_unit(low, high)
    if unit is not None:
        return _declaration(name, unit)
    return f"select other columns: {low:g} to {high:g} are not times since 1970 in any of {', '.join(TICKS_PER_SECOND)}"


def _declaration(name: str, time_format: str) -> str:
    return f"declare source.schema: {{{name}: {{kind: datetime, format: '{time_format}'}}}}"


def _fits(text: str, time_format: str) -> bool:
    return micros(text, time_format) is not None

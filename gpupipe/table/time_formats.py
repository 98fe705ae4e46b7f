"""Inference of time formats in text, and of time units in numbers, with advice to declare them.

A format is inferred for a whole column of a training table, and only if it is the only one that fits: no order of
formats decides between day and month. It is recorded, and later tables are read with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import chain, product

from gpupipe.table.time_texts import reader_of
from gpupipe.units import TICKS_PER_SECOND

ISO = ""  # the format of ISO 8601, the likeliest one
_ORDERS = {
    "/": ("mdY", "dmY", "Ymd", "mdy", "dmy", "ymd"),
    ".": ("dmY", "mdY", "Ymd", "dmy", "mdy", "ymd"),
    "-": ("Ymd", "dmY", "mdY", "dmy", "mdy", "ymd"),
}


def _numeric(mark: str) -> list[str]:
    """Return the formats of dates in digits, with a mark between day, month and year."""
    return [mark.join(f"%{part}" for part in order) for order in _ORDERS[mark]]


_NUMERIC = tuple(chain.from_iterable(map(_numeric, _ORDERS)))
_NAMED = (
    "%d-%b-%Y", "%d %b %Y", "%d. %b %Y", "%d/%b/%Y", "%b %d, %Y", "%b %d %Y", "%Y-%b-%d", "%a %d %b %Y", "%a, %d %b %Y",
    "%a, %b %d, %Y", "%d-%b-%y", "%d %b %y", "%d/%b/%y", "%b %d, %y",
)  # fmt: skip
_CLOCKS = (
    "", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %H:%M:%S", "T%H:%M",
    "T%H:%M:%S", " %H:%M:%S %z",
)  # fmt: skip
_WHOLE = ("%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S %Z", "%d/%b/%Y:%H:%M:%S %z", "%d/%b/%Y:%H:%M:%S")
FORMATS = (ISO, *(date + clock for clock, date in product(_CLOCKS, (*_NUMERIC, *_NAMED))), *_WHOLE)
"""The formats that are inferred, the likeliest first; two that fit a text give it different meanings, except `ISO`."""

DIGITS = {"%Y": 1, "%Y%m": 100, "%Y%m%d": 10_000, "%Y%m%d%H%M%S": 10**10}  # and what a year counts in it
YEARS = 1700, 2200  # of integers that look like dates
MOST_TEXTS = 200  # number of texts tried in every format if none matches all
LEAST_SHARE = 0.8  # if a format matches at least this share of the texts, the others are errors or missing values
MOST_READINGS = 3
SECONDS = (631_152_000, 2_524_608_000)  # 1990 to 2050
_EPOCH = datetime(1970, 1, 1)


def common_formats(texts: Iterable[str], formats: Sequence[str] | None = None) -> Sequence[str] | None:
    """Return the formats that every text has, those of `formats` if given; None if there is neither."""
    for text in texts:
        found = formats_of(text) if formats is None else formats
        formats = [each for each in found if formats is None or reader_of(each)(text) is not None]
        if not formats:
            break
    return formats


def formats_of(text: str) -> list[str]:
    """Return the formats that a text has, the likeliest first."""
    return [each for each in _candidates(_marks(text)) if reader_of(each)(text) is not None]


@lru_cache(maxsize=256)
def _candidates(marks: str) -> list[str]:
    """Return the formats whose texts can have these marks: most texts are not times, and have none to try."""
    return [each for each in FORMATS if not each or "%z" in each or _marks(re.sub("%.", "0", each)) == marks]


def _marks(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\w+", "", text.strip()))


def time_formats(texts: Sequence[str]) -> list[str]:
    """Return the formats that every text has, the likeliest first; several if day and month are ambiguous.

    `ISO` excludes the others.

    >>> time_formats(["03/11/2011", "25/11/2011"]), time_formats(["03/11/2011"]), time_formats(["2011-11-03"])
    (['%d/%m/%Y'], ['%m/%d/%Y', '%d/%m/%Y'], [''])
    """
    found = common_formats(texts) or ()
    return [ISO] if ISO in found else list(found)


def describe_readings(text: str) -> str:
    """Return what a text means in each format that it has: ``'03/06/2024' is 3 June 2024 as '%d/%m/%Y' or …``.

    >>> describe_readings("25/12/2011 08:26")
    "'25/12/2011 08:26' is 25 December 2011 08:26 as '%d/%m/%Y %H:%M'"
    """
    formats = time_formats([text])
    found = [f"{_written(text, each)} as {each!r}" for each in formats[:MOST_READINGS] if each]
    return f"{text!r} is {' or '.join(found)}" if found else ""


def _written(text: str, time_format: str) -> str:
    try:
        moment = _EPOCH + timedelta(microseconds=reader_of(time_format)(text) or 0)
    except OverflowError:
        return text
    clock = f"{moment:%H:%M:%S}".removesuffix(":00")
    return f"{moment.day} {moment:%B} {moment.year}{'' if clock == '00:00' else f' {clock}'}"


def time_unit(low: float, high: float) -> str | None:
    """Return the unit in which `low` to `high`, counted from 1970, are times between 1990 and 2050, or None."""
    for unit, per_second in TICKS_PER_SECOND.items():
        if SECONDS[0] * per_second <= low and high <= SECONDS[1] * per_second:
            return unit
    return None


def digit_format(low: float, high: float) -> str | None:
    """Return the format by which both integers are dates written as digits, such as 20240131, or None.

    >>> digit_format(20230131, 20241231), digit_format(1990, 2024), digit_format(20230132, 20241231)
    ('%Y%m%d', '%Y', None)
    """
    for time_format, year in DIGITS.items():
        bounds = [value for value in (low, high) if YEARS[0] * year <= value < YEARS[1] * year]
        if len(bounds) == 2 and all(reader_of(time_format)(f"{value:.0f}") is not None for value in bounds):
            return time_format
    return None


def declare_texts(name: str, texts: Sequence[str]) -> str:
    """Return advice to declare a text column as times in the format of its values; ``""`` if they are not times."""
    formats = time_formats(texts)
    if formats:
        advice = declaration(name, formats[0])
        if len(formats) > 1:
            others = " or ".join(repr(each) for each in formats[1:])
            advice += f"; {texts[0]!r} could also be {others}"
        return advice
    texts = texts[:MOST_TEXTS]
    if texts and all(text.strip().isdecimal() for text in texts):
        return declare_numbers(name, *(pick(map(int, texts)) for pick in (min, max)))
    found = Counter(chain.from_iterable(map(formats_of, texts))).most_common(1)
    if not found or found[0][1] < LEAST_SHARE * len(texts):
        return ""
    best = found[0][0]
    odd = next(text for text in texts if reader_of(best)(text) is None)
    return f"{declaration(name, best)}, and correct values such as {odd!r} or add them to source.csv.null_values"


def declare_numbers(name: str, low: float, high: float) -> str:
    """Return advice to declare a numeric column as times, in the unit or the format that matches its range."""
    time_format = time_unit(low, high) or digit_format(low, high)
    if time_format is not None:
        return declaration(name, time_format)
    units = ", ".join(TICKS_PER_SECOND)
    return (
        f"select other columns: {low:g} to {high:g} are not times since 1970 in any of {units}, nor dates in digits "
        f"such as 20240131"
    )


def declaration(name: str, time_format: str) -> str:
    """Return the text that declares a column as times in a format."""
    return (
        f"declare source.schema: {{{name}: {{kind: datetime, format: '{time_format}'}}}}"
        if time_format
        else (f"declare source.schema: {{{name}: datetime}}")
    )

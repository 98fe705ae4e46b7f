"""Numbers written for people: currencies, units, percent signs, separators of thousands, parentheses, durations."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import chain, pairwise, repeat
from typing import Any, Literal

DecimalMark = Literal[".", ","]
DurationUnit = Literal["ms", "s", "min", "h", "d", "w", "month", "year"]
Units = str | list[str] | dict[str, float]

LONGEST = 64  # characters of a text that may be a number
BLANKS = "\u00a0\u2007\u2009\u202f "  # between thousands, and before a unit
CURRENCIES = "$¢£¤¥\u20a0-\u20cf"  # of a character class
MINUS = str.maketrans(dict.fromkeys("\u2212\u2012\u2013\ufe63\uff0d", "-"))
BANDS = re.compile(r"(?:[<>≤≥~≈]|<=|>=)\s*\S*\d.*|.*\d\s*\+(?:\s*[^\W\d]\D*)?|-?[\d.,]+\s*(?:-|–|to)\s*[\d.,]+")
LIMIT = re.compile(r"(?:[<>]=?|[≤≥~≈])\s*(.*\d.*)|(.*\d.*?)\s*\+(\D*)")  # one end of a band
RANGE = re.compile(r"(.*?\d[^\d]*?)\s*(?:-|–|to)\s*(\S*\d.*)")  # both ends
HEXADECIMAL = re.compile("[+-]?0x[0-9a-f]", re.I)
CODES = re.compile("AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|RS|RUB|SEK|TRY|USD|ZAR", re.I)
MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "mn": 1e6, "B": 1e9, "b": 1e9, "bn": 1e9}
FIRST = 20  # texts that are tried before all others
LEAST_READ, LEAST_OF_UNIT = 0.95, 0.9  # shares of the distinct texts

_WORDS = {
    "ms": "ms msec msecs millisecond milliseconds",
    "s": "s sec secs second seconds",
    "min": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "w": "w wk wks week weeks",
    "month": "mo mos mth mths month months",
    "year": "y yr yrs year years",
}
UNIT_OF_WORD = dict(chain.from_iterable(zip(words.split(), repeat(unit)) for unit, words in _WORDS.items()))
# Seconds of the units of a duration. A month and a year are the means of the Gregorian calendar.
DAY = 86_400.0
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}
SECONDS |= {"month": 30.436875 * DAY, "year": 365.2425 * DAY}
_PART = r"(?:(\d+(?:[.,]\d+)?){})?"
CLOCK = re.compile(r"(\d+):([0-5]\d):([0-5]\d(?:[.,]\d+)?)")
ISO = re.compile(f"P(?=[0-9T]){''.join(map(_PART.format, 'YMWD'))}(?:T(?=[0-9]){''.join(map(_PART.format, 'HMS'))})?")
ISO_SECONDS = [SECONDS[unit] for unit in ("year", "month", "w", "d", "h", "min", "s")]


@dataclass(frozen=True)
class WrittenNumber:
    """A number as it is written.

    `value`: without units: 12.5 for ``12.5%``, 5 for ``5k``. `before`, `after`: the units before and after the number;
    "" for none.
    """

    value: float
    before: str = ""
    after: str = ""


def read_number(text: str, decimal: DecimalMark = ".") -> WrittenNumber | None:
    """Return the number that a text contains and nothing else but units; None for other texts.

    Thousands may be separated by a comma (or a point if the comma is decimal), a blank, an apostrophe or ``_``; the
    last group has three digits, the others two or three. A number in parentheses is negative, as in accounting.

    Examples
    --------
    >>> read_number("($1,234.50)")
    WrittenNumber(value=-1234.5, before='$', after='')
    >>> read_number("1.234,50 €", decimal=",")
    WrittenNumber(value=1234.5, before='', after='€')
    >>> read_number("190Nm@ 2000rpm") is None
    True
    """
    if len(text) > LONGEST:
        return None
    text = text.translate(MINUS).strip().strip(BLANKS)
    is_negative = False
    if inner := re.fullmatch(r"([^\d()]*)\((.*)\)([^\d()]*)", text):
        text, is_negative = "".join(inner.groups()).strip(), True
    found = None if HEXADECIMAL.match(text) else _pattern(decimal).fullmatch(text)
    if found is None:
        return None
    signs = [sign for sign in (found["sign"], found["inner"], found["last"]) if sign]
    if len(signs) + is_negative > 1:
        return None
    whole = re.sub(r"\D", "", found["whole"])
    value = float(f"{whole or 0}.{found['part'] or 0}e{found['power'] or 0}")
    is_negative = is_negative or signs == ["-"]
    return WrittenNumber(-value if is_negative else value, found["before"].strip(BLANKS), found["after"].strip(BLANKS))


@cache
def _pattern(decimal: DecimalMark) -> re.Pattern[str]:
    """Return the pattern of a number with units."""
    thousands = "".join({",", "."} - {decimal}) + r"'’_" + BLANKS
    point = re.escape(decimal)
    before = r"(?P<sign>[+-]?)(?P<before>[^\d\s+\-()<>≤≥~≈,;:/]{0,8}?)" + rf"[{BLANKS}]*(?P<inner>[+-]?)"
    whole = rf"(?P<whole>\d{{1,3}}(?P<mark>[{thousands}])(?:\d{{2,3}}(?P=mark))*\d{{3}}|\d*)"
    part = rf"(?:{point}(?P<part>\d*))?(?:(?<=\d)|(?<=\d{point}))(?:[eE](?P<power>[+-]?\d{{1,3}})(?!\w))?"
    unit = rf"(?:[^\W\d_]|[%‰°'\"{CURRENCIES}])[^\s()<>,;:]{{0,15}}(?: [^\W\d_]{{1,12}}){{0,2}}"
    return re.compile(rf"{before}{whole}{part}[{BLANKS}]*(?P<after>(?:{unit})?)(?P<last>-?)")


def read_seconds(text: str, decimal: DecimalMark = ".") -> float | None:
    """Return the seconds of a duration; None for other texts, also for a number without a unit.

    A duration is in words, with units from large to small, each at most once; a clock of hours, minutes and seconds,
    after words or alone; or in ISO 8601. ``m`` are minutes. A month has 30.436875 days and a year 365.2425.

    Examples
    --------
    >>> read_seconds("1 week 2 days"), read_seconds("00:12:30"), read_seconds("PT5M"), read_seconds("1h, 30m")
    (777600.0, 750.0, 300.0, 5400.0)
    >>> read_seconds("12:30") is None, read_seconds("5 minutes 1 hour") is None
    (True, True)
    """
    text = text.translate(MINUS).strip().strip(BLANKS)
    if len(text) > LONGEST:
        return None
    sign, text = (-1.0 if text[:1] == "-" else 1.0), text[text[:1] in ("+", "-") :].strip()
    if found := ISO.fullmatch(text):
        parts = [part and float(part.replace(",", ".")) for part in found.groups()]
        return sign * sum((part or 0.0) * seconds for part, seconds in zip(parts, ISO_SECONDS, strict=True))
    terms, end = [], 0
    for term in _term(decimal).finditer(text):
        if term.start() != end or (seconds := _seconds_of(term["unit"])) is None:
            break
        number = read_number(term["number"], decimal)
        terms.append((number.value if number else math.nan, seconds))
        end = term.end()
    clock = CLOCK.fullmatch(text[end:])
    if clock is not None:
        terms += zip([float(part.replace(",", ".")) for part in clock.groups()], (3600.0, 60.0, 1.0), strict=True)
    is_whole = end == len(text) or clock is not None
    if not terms or not is_whole or any(before <= after for (_, before), (_, after) in pairwise(terms)):
        return None
    found_seconds = sum(number * seconds for number, seconds in terms)
    return None if math.isnan(found_seconds) else sign * found_seconds


def _seconds_of(unit: str) -> float | None:
    return None if unit == "M" else SECONDS.get(UNIT_OF_WORD.get(unit.lower(), ""))  # M may be minutes or months


@cache
def _term(decimal: DecimalMark) -> re.Pattern[str]:
    """Return the pattern of a number with a unit of time."""
    number = rf"\d[\d.,]*(?<![.,])|{re.escape(decimal)}\d+"
    return re.compile(rf"(?P<number>{number})[{BLANKS}]*-?(?P<unit>[^\W\d_]+)\.?\s*(?:,\s*|and\s+|&\s*)?")


def is_band(text: str) -> bool:
    """Return whether a text is a band of numbers: ``<1``, ``>= 20``, ``65+``, ``5-10``."""
    return BANDS.fullmatch(text.strip()) is not None


@dataclass(frozen=True)
class NumberFormat:
    """Decimal mark and units of the numbers of a column.

    - `units`: the factor of each unit. A text without one has the factor 1; with any other, it is not a number.
    - `decimal`: {".", ","}
    - `has_bands`: whether a band is a number: its limit, or the middle of a range. Otherwise it is not a number.
    - `duration`: the unit of durations, a key of `SECONDS`; "": not durations
    """

    units: Mapping[str, float] = field(default_factory=dict)
    decimal: DecimalMark = "."
    has_bands: bool = False
    duration: str = ""

    @classmethod
    def of(
        cls, units: Units | None, decimal: DecimalMark | None, bands: str | None, duration: DurationUnit | None
    ) -> NumberFormat:
        """Return the format of the settings of `parse_number`, or of a column of ``schema:``."""
        names = [units] if isinstance(units, str) and units else units or {}
        factors = names if isinstance(names, dict) else dict.fromkeys(names, 1.0)
        return cls(dict(factors), decimal or ".", bands == "limit", duration or "")

    def to_json(self) -> str:
        """Return the format as a text, for the schema of a model."""
        return json.dumps([dict(self.units), self.decimal, self.has_bands, self.duration], ensure_ascii=False)

    @staticmethod
    @lru_cache
    def from_json(text: str) -> NumberFormat:
        """Return the format from the result of `to_json`; raise ValueError if it is malformed."""
        values: Any = json.loads(text)
        kinds = (dict, str, bool, str)
        if type(values) is list and len(values) == 4 and all(map(isinstance, values, kinds)):
            found = NumberFormat(*values)
            are_numbers = all(type(factor) in (int, float) for factor in found.units.values())
            if are_numbers and found.decimal in (".", ",") and found.duration in ("", *SECONDS):
                return found
        raise ValueError(f"expected the format of numbers in texts; got {text!r:.80}")

    @property
    def label(self) -> str:
        """Name of what a text is expected to be, for messages."""
        return "durations" if self.duration else f"numbers in {', '.join(self.units)}" if self.units else "numbers"

    def settings(self, *columns: str) -> dict[str, object]:
        """Return the settings of the op `parse_number` for columns."""
        found: dict[str, object] = {"columns": columns[0] if len(columns) == 1 else list(columns)}
        if self.units:
            only = next(iter(self.units))
            found["units"] = only if self.units == {only: 1.0} else dict(self.units)
        if self.decimal != ".":
            found["decimal"] = self.decimal
        if self.has_bands:
            found["bands"] = "limit"
        if self.duration:
            found["duration"] = self.duration
        return found

    def parse(self, text: str) -> float:
        """Return the number of a text; NaN if it is not a number, or has another unit."""
        if self.duration and (seconds := read_seconds(text, self.decimal)) is not None:
            return seconds / SECONDS[self.duration]
        found = read_number(text, self.decimal)
        if found is None:
            return self._parse_band(text) if self.has_bands else float("nan")
        value = found.value
        for unit in (found.before, found.after):
            value *= self.units.get(unit, float("nan")) if unit else 1.0
        return value

    def _parse_band(self, text: str) -> float:
        """Return the limit of a band, or the middle of a range, whose unit may be written once."""
        if limit := LIMIT.fullmatch(text.strip()):
            return replace(self, has_bands=False).parse(limit[1] or f"{limit[2]} {limit[3]}")
        ends = RANGE.fullmatch(text.strip().translate(MINUS))
        if self.duration and ends:
            unit = ends[2].lstrip("0123456789.,")
            one = replace(self, has_bands=False)
            first, last = one.parse(ends[1] + unit * ends[1].strip().isdecimal()), one.parse(ends[2])
            return (first + last) / 2 if first < last else float("nan")
        low, high = (read_number(ends[i], self.decimal) if ends else None for i in (1, 2))
        if low is None or high is None or low.value >= high.value:
            return float("nan")
        factors = [
            self.units.get(unit, float("nan")) for unit in {low.before, low.after, high.before, high.after} - {""}
        ]
        return (low.value + high.value) / 2 * math.prod(factors)


def guess_format(texts: Sequence[str]) -> NumberFormat | None:
    """Return the format of the distinct texts of a column if nearly all are numbers, and some are not plain ones.

    Codes are not numbers: texts with leading zeros, and letters before a number that do not name a currency. Bands such
    as ``<5`` are numbers if most texts are.
    """
    numbers = [text for text in texts if not is_band(text)]
    if len(numbers) == len(texts) or 2 * len(numbers) <= len(texts):
        return _format_of(texts)
    has_codes = any(_is_code(text, number) for text, number in _read_all(numbers, ".").items())
    found = NumberFormat() if all(map(_is_plain, numbers)) and not has_codes else _format_of(numbers)
    return found and replace(found, has_bands=True)


def _format_of(texts: Sequence[str]) -> NumberFormat | None:
    return _numbers_of(texts) or _durations_of(texts)


def _durations_of(texts: Sequence[str]) -> NumberFormat | None:
    for some in (texts[:FIRST], texts):
        if sum(read_seconds(text) is not None for text in some) < max(1, LEAST_READ * len(some)):
            return None
    return NumberFormat(duration="s")


def _numbers_of(texts: Sequence[str]) -> NumberFormat | None:
    if len(texts) > FIRST and len(_read_all(texts[:FIRST], ".")) + len(_read_all(texts[:FIRST], ",")) < FIRST / 2:
        return None  # most columns of words
    marks: tuple[DecimalMark, ...] = (".", ",")
    decimal, read = max(((mark, _read_all(texts, mark)) for mark in marks), key=lambda guess: len(guess[1]))
    if len(read) < max(1, LEAST_READ * len(texts)) or any(_is_code(text, number) for text, number in read.items()):
        return None
    if all(_is_plain(text) for text in read):
        return None
    counted = Counter((number.before, number.after) for number in read.values())
    multiples = {after for _, after in counted} & MULTIPLES.keys()
    if len(multiples) > 1 or (multiples and any(before for before, _ in counted)):
        units = {unit: MULTIPLES.get(unit, 1.0) for unit in chain.from_iterable(counted) if unit}
        return NumberFormat(units, decimal) if len(units) - len(multiples) <= 1 else None
    used = Counter({unit: n for unit, n in _by_unit(counted).items() if unit})
    if not used:
        return NumberFormat({}, decimal)
    unit, n = used.most_common(1)[0]
    return NumberFormat({unit: 1.0}, decimal) if n >= LEAST_OF_UNIT * sum(used.values()) else None


def _read_all(texts: Sequence[str], decimal: DecimalMark) -> dict[str, WrittenNumber]:
    return {text: number for text in texts if (number := read_number(text, decimal)) is not None}


def _by_unit(counted: Mapping[tuple[str, str], int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (before, after), n in counted.items():
        found[before or after] += n
    return found


def _is_plain(text: str) -> bool:
    return re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", text) is not None


def _is_code(text: str, number: WrittenNumber) -> bool:
    """Return whether a text is a code with digits rather than a quantity: ``007``, ``A12``, ``Room 3``."""
    first = re.search(r"\d+", text)
    has_leading_zero = first is not None and len(first[0]) > 1 and first[0][0] == "0"
    is_currency = re.search(f"[{CURRENCIES}]", number.before) is not None
    is_named = bool(number.before) and not is_currency and not CODES.fullmatch(number.before.rstrip("."))
    return has_leading_zero or is_named

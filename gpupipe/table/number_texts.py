"""Numbers written for people, with currencies, units, percent signs, separators of thousands and parentheses."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Literal

DecimalMark = Literal[".", ","]

LONGEST = 64  # characters of a text that may be a number
BLANKS = "\u00a0\u2007\u2009\u202f "  # between thousands, and before a unit
CURRENCIES = "$¢£¤¥\u20a0-\u20cf"  # of a character class
MINUS = str.maketrans(dict.fromkeys("\u2212\u2012\u2013\ufe63\uff0d", "-"))
BANDS = re.compile(r"(?:[<>≤≥~≈]|<=|>=)\s*\S*\d.*|.*\d\s*\+|-?[\d.,]+\s*(?:-|–|to)\s*[\d.,]+")
LIMIT = re.compile(r"(?:[<>]=?|[≤≥~≈])\s*(.*\d.*)|(.*\d.*?)\s*\+")  # one end of a band
RANGE = re.compile(r"(.*?\d[^\d]*?)\s*(?:-|–|to)\s*(\S*\d.*)")  # both ends
HEXADECIMAL = re.compile("[+-]?0x[0-9a-f]", re.I)
CODES = re.compile("AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|RS|RUB|SEK|TRY|USD|ZAR", re.I)
MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "mn": 1e6, "B": 1e9, "b": 1e9, "bn": 1e9}
FIRST = 20  # texts that are tried before all others
LEAST_READ, LEAST_OF_UNIT = 0.95, 0.9  # shares of the distinct texts


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


def is_band(text: str) -> bool:
    """Return whether a text is a band of numbers: ``<1``, ``>= 20``, ``65+``, ``5-10``."""
    return BANDS.fullmatch(text.strip()) is not None


@dataclass(frozen=True)
class NumberFormat:
    """Decimal mark and units of the numbers of a column.

    - `units`: the factor of each unit. A text without one has the factor 1; with any other, it is not a number.
    - `decimal`: {".", ","}
    - `has_bands`: whether a band is a number: its limit, or the middle of a range. Otherwise it is not a number.
    """

    units: Mapping[str, float] = field(default_factory=dict)
    decimal: DecimalMark = "."
    has_bands: bool = False

    def settings(self, *columns: str) -> dict[str, object]:
        """Return the settings of the op `parse_number` for columns."""
        found: dict[str, object] = {"columns": columns[0] if len(columns) == 1 else list(columns)}
        if self.units:
            only = next(iter(self.units))
            found["unit"] = only if self.units == {only: 1.0} else dict(self.units)
        if self.decimal != ".":
            found["decimal"] = self.decimal
        if self.has_bands:
            found["bands"] = "limit"
        return found

    def parse(self, text: str) -> float:
        """Return the number of a text; NaN if it is not a number, or has another unit."""
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
            return replace(self, has_bands=False).parse(limit[1] or limit[2])
        ends = RANGE.fullmatch(text.strip().translate(MINUS))
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

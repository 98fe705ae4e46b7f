"""Times as text and as numbers: the reading of a single value by the format of its column.

The format of a datetime column is recorded with it, and every reader of cells takes the functions of this module:
tables, single rows, rules, histories. Without a format, texts are ISO 8601 (`gpupipe.units.iso_us`). With one, only
texts in that format are times, and integers with its digits.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable
from datetime import date, datetime
from functools import cached_property, lru_cache

from gpupipe.table.schema import NAT
from gpupipe.units import DAY_US, ISO_PATTERN, TICKS_PER_SECOND, epoch_us, iso_us

# Each directive of digits: its width, and what it may be if it is not next to another one, which fixes the width.
NUMBERS = {
    "Y": (4, r"\d{4}"),
    "y": (2, r"\d\d"),
    "m": (2, "1[0-2]|0?[1-9]"),
    "d": (2, "3[01]|[12][0-9]|[0 ]?[1-9]"),
    "j": (3, "36[0-6]|3[0-5][0-9]|[12][0-9][0-9]|0?[1-9][0-9]|0{0,2}[1-9]"),
    "H": (2, "2[0-3]|[01]?[0-9]"),
    "I": (2, "1[0-2]|0?[1-9]"),
    "M": (2, "[0-5]?[0-9]"),
    "S": (2, "[0-5]?[0-9]"),
    "f": (6, r"\d{1,9}"),
}
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
OFFSET = r"[Zz]|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d(?::?[0-5]\d)?)?"
OF_LIBRARY = frozenset("cGuUVwWxX")  # weeks, and forms of the locale: rare, and left to `strptime`
_ISO_FORMAT = re.compile(r"%Y-%m-%d(?:[T ]%H:%M(?::%S(?:\.%f)?)?(?:%z|Z)?)?")
NO_DATE = 1900, 1, 1  # the date of a time of day, as in `strptime`

ReadTime = Callable[[str], int | None]
"""Returns a text in microseconds since 1970-01-01 UTC: `NAT` if int64 cannot hold the time, None for other texts."""


def _any_case(text: str) -> str:
    """Return a pattern of a text in upper or lower case."""
    return "".join(f"[{c.upper()}{c.lower()}]" if c in string.ascii_letters else re.escape(c) for c in text)


def _names(names: tuple[str, ...]) -> str:
    return "|".join(_any_case(name[:3]) + f"(?:{_any_case(name[3:])})?" * (len(name) > 3) for name in names)


OTHERS = {
    "b": _names(MONTHS),
    "B": _names(MONTHS),
    "a": _names(DAYS),
    "A": _names(DAYS),
    "p": "[AaPp][Mm]",
    "z": OFFSET,
    "Z": "[Uu][Tt][Cc]|[Gg][Mm][Tt]|[Zz]",
}


class TimePattern:
    """A ``strptime`` format, read alike in every environment.

    Names of months and days are English, short or in full. A directive of digits that is next to another one has its
    full width: 2024111 does not match ``%Y%m%d``. Two digits are years from 1969 to 2068, as in POSIX.

    Parameters
    ----------
    time_format : str
    """

    def __init__(self, time_format: str) -> None:
        self.time_format = time_format
        self._tokens = re.findall(r"%.|\s+|[^%\s]|%", time_format, re.DOTALL)
        self._fields = [token[1:] for token in self._tokens if token[0] == "%" and token != "%%"]

    @property
    def unknown(self) -> str:
        """The first directive that Python does not have, ``no directive`` without any; empty for a valid format."""
        known = {*NUMBERS, *OTHERS, *OF_LIBRARY}
        unknown = (f"%{field}" for field in self._fields if field not in known)
        return next(unknown, "" if self._fields else "no directive")

    @cached_property
    def is_digits(self) -> bool:
        """True if the format only has directives of digits, such as ``%Y%m%d``, so that integers can be read by it."""
        return len(self._fields) == len(self._tokens) > 0 and not {*self._fields} - {*NUMBERS} | {*self._fields} & {"f"}

    @cached_property
    def regex(self) -> str | None:
        """The texts of the format as a regular expression of Python and of JSON Schema; None if `strptime` reads it."""
        if self.unknown or OF_LIBRARY & {*self._fields}:
            return None
        is_number = [token[0] == "%" and token[1:] in NUMBERS for token in self._tokens]
        made = ""
        for i, token in enumerate(self._tokens):
            if token == "%%" or token[0] != "%":
                made += r"\s+" if token.isspace() else _any_case(token[0])
                continue
            if not is_number[i]:
                made += f"({OTHERS[token[1]]})"
                continue
            width, loose = NUMBERS[token[1]]
            is_tight = any(is_number[max(i - 1, 0) : i]) or any(is_number[i + 1 : i + 2])
            made += rf"(\d{{{width}}})" if is_tight else f"({loose})"
        return made

    @cached_property
    def width(self) -> int:
        """Number of digits of a format of digits only."""
        return sum(NUMBERS[field][0] for field in self._fields)

    @cached_property
    def json_pattern(self) -> str | None:
        """The regular expression of a cell in JSON Schema; None if there is none."""
        if self.is_digits:
            digits = self.regex if self._fields[0] == "Y" else rf"\d{{1,{self.width}}}"
            return rf"^\s*{digits}(?:\.0*)?\s*$"
        return None if self.regex is None else rf"^\s*(?:{self.regex})\s*$"

    @cached_property
    def _match(self) -> Callable[[str], re.Match[str] | None]:
        assert self.regex is not None
        return re.compile(self.regex, re.ASCII).fullmatch

    def read(self, text: str) -> int | None:
        """Return a text in microseconds since 1970-01-01 UTC, None if it does not have the format."""
        text = text.strip()
        try:
            if self.regex is None:
                return epoch_us(datetime.strptime(text, self.time_format))
            if self.is_digits:  # on their way through CSV numbers lose leading zeros, and get a fraction if one is null
                whole, _, fraction = text.partition(".")
                text = text if fraction.strip("0") else whole
                text = text.zfill(self.width) if self._fields[0] != "Y" and text.isdecimal() else text
            match = self._match(text)
            return None if match is None else _micros(dict(zip(self._fields, match.groups(), strict=True)))
        except ValueError:  # such as February 30
            return None


def _micros(found: dict[str, str]) -> int:
    """Return the time of the texts of the directives; raise ValueError if there is no such day."""
    year, month, day = NO_DATE
    if "Y" in found:
        year = int(found["Y"])
    elif "y" in found:
        year = int(found["y"]) + (1900 if found["y"] > "68" else 2000)
    if name := found.get("b") or found.get("B"):
        month = [each[:3] for each in MONTHS].index(name[:3].lower()) + 1
    month, day = int(found.get("m", month)), int(found.get("d", day))
    days = date(year or 400, month, day).toordinal() - (0 if year else 146_097)  # Python has no year 0
    if "j" in found:
        if int(found["j"]) == 366 and not (year % 4 == 0 and (year % 100 or year % 400 == 0)):
            raise ValueError("no such day")
        days += int(found["j"]) - 1
    hour = int(found.get("H", 0))
    if "I" in found:
        hour = int(found["I"]) % 12 + 12 * (found.get("p", "a")[0] in "Pp")
    seconds = (hour * 60 + int(found.get("M", 0))) * 60 + int(found.get("S", 0)) - _offset(found.get("z", ""))
    return (days - _EPOCH_DAY) * DAY_US + seconds * 1_000_000 + int(found.get("f", "0")[:6].ljust(6, "0"))


def _offset(text: str) -> int:
    """Return an offset in seconds."""
    digits = "".join(filter(str.isdigit, text)).ljust(6, "0")
    seconds = (int(digits[:2]) * 60 + int(digits[2:4])) * 60 + int(digits[4:])
    return -seconds if text.startswith("-") else seconds


_EPOCH_DAY = date(1970, 1, 1).toordinal()

pattern_of = lru_cache(maxsize=1024)(TimePattern)
"""Returns the `TimePattern` of a format."""


def is_pattern(time_format: str | None) -> bool:
    """Return whether a format is a ``strptime`` format, not a unit."""
    return bool(time_format) and time_format not in TICKS_PER_SECOND


def is_iso(time_format: str | None) -> bool:
    """Return whether all texts of a format are ISO 8601 times, as those of ``%Y-%m-%d`` if they have all digits."""
    return not time_format or _ISO_FORMAT.fullmatch(time_format) is not None


def is_strict(time_format: str | None) -> bool:
    """Return whether the texts of a format are not ISO 8601, so that a parser of files must not read them as such."""
    return is_pattern(time_format) and not is_iso(time_format)


def reader_of(time_format: str | None) -> ReadTime:
    """Return the function that reads the texts of a column: by its format, as numbers of its unit, or as ISO 8601.

    A format that `is_iso` takes all of ISO 8601 too, since both give a text the same meaning.
    """
    if not time_format:
        return iso_us
    if time_format in TICKS_PER_SECOND:
        return lambda text: _of_number_text(text, time_format)
    read = pattern_of(time_format).read

    def read_iso(text: str) -> int | None:
        found = iso_us(text)
        return read(text) if found is None else found

    return read_iso if is_iso(time_format) else read


def of_ticks(value: float, unit: str) -> int:
    """Return a number of a unit, since 1970-01-01 UTC, in microseconds; integers are rounded down.

    `NAT` for NaN and for a time that int64 cannot hold.

    >>> of_ticks(1.5, "s"), of_ticks(-1, "ns"), of_ticks(1e300, "s") == of_ticks(float("nan"), "s") == NAT
    (1500000, -1, True)
    """
    per_second = TICKS_PER_SECOND[unit]
    if isinstance(value, int) and NAT <= value < 2**63:
        found = value * 1_000_000 // per_second
    else:
        exact = float(value) * (1e6 / per_second) if abs(value) < 1e300 else math.inf  # false for NaN
        found = round(exact) if math.isfinite(exact) else NAT
    return found if NAT < found < 2**63 else NAT


def _of_number_text(text: str, unit: str) -> int | None:
    try:
        text = text.strip()
        return of_ticks(int(text) if text.removeprefix("-").isdecimal() else float(text), unit)
    except ValueError:
        return None


def json_pattern(time_format: str | None) -> str | None:
    """Return the pattern of the texts of a column in JSON Schema; None if there is none, as for a unit."""
    if is_iso(time_format):
        loose = f"|{pattern_of(time_format).regex}" if time_format else ""
        return rf"^\s*(?:{ISO_PATTERN}{loose})\s*$"
    return pattern_of(time_format or "").json_pattern if is_pattern(time_format) else None

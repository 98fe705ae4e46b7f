"""Times as text and as numbers: the reading of a single value by the format of its column.

The format of a datetime column is recorded with it, and every reader of cells takes the functions of this module:
tables, single rows, rules, histories. Without a format, texts are ISO 8601 (`gpupipe.units.iso_us`). With one, only
texts in that format are times, and integers with its digits.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from functools import cached_property, lru_cache
from itertools import product

from gpupipe.table.schema import NAT
from gpupipe.units import DAY_US, ISO_PATTERN, LEAP_YEAR, TICKS_PER_SECOND, epoch_us, iso_us

# Each directive of digits: its width, and its texts. `~` stands for a zero that is optional if no digit is next to it.
NUMBERS = {
    "Y": (4, "[0-9]{4}"),
    "y": (2, "[0-9]{2}"),
    "m": (2, "1[0-2]|~[1-9]"),
    "d": (2, "3[01]|[12][0-9]|~[1-9]"),
    "j": (3, "36[0-6]|3[0-5][0-9]|[12][0-9][0-9]|~[1-9][0-9]|~~[1-9]"),
    "H": (2, "2[0-3]|1[0-9]|~[0-9]"),
    "I": (2, "1[0-2]|~[1-9]"),
    "M": (2, "[1-5][0-9]|~[0-9]"),
    "S": (2, "[1-5][0-9]|~[0-9]"),
    "f": (6, "[0-9]{6}"),
}
# The calendar: months, as a directive of digits, with their days; the last ones are of leap years only.
MONTHS_AND_DAYS = (
    ((1, 3, 5, 7, 8, 10, 12), "1[02]|~[13578]", NUMBERS["d"][1]),
    ((4, 6, 9, 11), "11|~[469]", "30|[12][0-9]|~[1-9]"),
    ((2,), "~2", "2[0-8]|1[0-9]|~[1-9]"),
    ((2,), "~2", "29"),
)
DAYS_OF_YEAR = ("36[0-5]|3[0-5][0-9]|[12][0-9][0-9]|~[1-9][0-9]|~~[1-9]", "366")
LEAP_YEARS = {"Y": LEAP_YEAR, "y": "[02468][048]|[13579][26]"}
SYNTAX = re.compile(r"[\\^$.*+?()\[\]{}|]")  # `re.escape` has escapes that JSON Schema does not allow
BLANKS = r"[ \t\n\r]*"
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
OFFSET = "[Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9](?::?[0-5][0-9])?)?"
OF_LIBRARY = frozenset("cGuUVwWxX")  # weeks, and forms of the locale: rare, and left to `strptime`
_ISO_FORMAT = re.compile(r"%Y-%m-%d(?:[T ]%H:%M(?::%S(?:\.%f)?)?(?:%z|Z)?)?")
NO_DATE = 1900, 1, 1  # the date of a time of day, as in `strptime`

ReadTime = Callable[[str], int | None]
"""Returns a text in microseconds since 1970-01-01 UTC: `NAT` if int64 cannot hold the time, None for other texts."""


def _any_case(text: str) -> str:
    """Return a pattern of a text in upper or lower case."""
    return "".join(
        f"[{c.upper()}{c.lower()}]" if c in string.ascii_letters else SYNTAX.sub(r"\\\g<0>", c) for c in text
    )


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
        """Regular expression of the texts, and of days such as February 30; None: `strptime` reads them."""
        if self.unknown or OF_LIBRARY & {*self._fields}:
            return None
        return self._regex({})

    def _regex(self, only: Mapping[str, str], is_short: bool = False) -> str:
        """Return the regular expression with these texts of directives; `is_short`: a first zero may be absent."""
        is_number = [token[0] == "%" and token[1:] in NUMBERS for token in self._tokens]
        made = ""
        for i, token in enumerate(self._tokens):
            if token == "%%" or token[0] != "%":
                made += r"[ \t-\r]+" if token.isspace() else _any_case(token[0])
                continue
            field = token[1:]
            if not is_number[i]:
                made += f"({only.get(field, OTHERS[field])})"
                continue
            is_tight = any(is_number[max(i - 1, 0) : i]) or any(is_number[i + 1 : i + 2])
            is_loose = not is_tight or (is_short and i == 0)
            texts = only.get(field, "[0-9]{1,9}" if field == "f" and is_loose else NUMBERS[field][1])
            made += f"({texts.replace('~', ('[0 ]?' if field == 'd' else '0?') if is_loose else '0')})"
        return made

    def _calendar(self) -> Iterator[dict[str, str]]:
        """Yield texts of directives that are a day for each combination; together they have all days."""
        fields = {*self._fields}
        leap = next(({name: texts} for name, texts in LEAP_YEARS.items() if name in fields), None)
        months: list[dict[str, str]] = [{}]
        if "d" in fields and fields & {"m", "b", "B"}:
            months = []
            for numbers, texts, days in MONTHS_AND_DAYS:
                names = _names(tuple(MONTHS[number - 1] for number in numbers))
                months.append({"m": texts, "b": names, "B": names, "d": days})
        for of_month, of_year in product(months, [{"j": texts} for texts in DAYS_OF_YEAR] if "j" in fields else [{}]):
            found = of_month | of_year
            if found.get("d") != "29" and found.get("j") != "366":
                yield found
            elif leap is not None:  # without a year, the days are those of 1900
                yield found | leap

    @cached_property
    def width(self) -> int:
        """Number of digits of a format of digits only."""
        return sum(NUMBERS[field][0] for field in self._fields)

    @cached_property
    def json_regex(self) -> str | None:
        """The texts that are read, as a regular expression of JSON Schema without blanks; None if there is none."""
        if self.regex is None:
            return None
        is_short = self.is_digits and self._fields[0] != "Y"
        fraction = r"(?:\.0*)?" if self.is_digits else ""
        return f"(?:{'|'.join(self._regex(only, is_short) for only in self._calendar())}){fraction}"

    @cached_property
    def _match(self) -> Callable[[str], re.Match[str] | None]:
        assert self.regex is not None
        return re.compile(self.regex).fullmatch

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
    if time_format in TICKS_PER_SECOND:
        return None
    regexes = [ISO_PATTERN] if is_iso(time_format) else []
    regexes += [pattern_of(time_format).json_regex or ""] if time_format else []
    return f"^{BLANKS}(?:{'|'.join(regexes)}){BLANKS}$" if all(regexes) else None

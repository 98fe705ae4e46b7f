"""Encoders of single cells: raw Python values to the numbers of an encoded table, without Arrow.

The rules are those of `gpupipe.table.encode.encode` for a frozen schema, and give the same bits. The usual types (str,
int, float, bool, None, datetime, NumPy scalars) are encoded here; other values are encoded as a table of one row, by a
function that the caller provides.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

import numpy as np

from gpupipe.table.exact_texts import bytes_text, exact_text
from gpupipe.table.hash_buckets import bucket_codes
from gpupipe.table.schema import BOOLEAN_WORDS, FIRST_LEVEL, LARGEST, NAT, NULL, NULL_VALUES, UNSEEN, Column
from gpupipe.table.time_formats import guess_format, micros
from gpupipe.units import DAY_US, TICKS_PER_SECOND, epoch_us

EXACT = 2**53  # float64 represents all integers up to this one
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"  # Python 3.14 reads 24:00 too
_ZONE = r"(?:Z|[+-][0-5]\d:[0-5]\d)"  # `fromisoformat` reads 75 minutes too
# Texts in these formats are read by `datetime.fromisoformat` as by `strptime`, in a twentieth of the time. Without a
# format, each is also the first of `FORMATS` that such a text matches.
ISO_FORMATS = {
    "%Y-%m-%d": r"\d{4}-\d\d-\d\d",
    "%Y-%m-%d %H:%M:%S": rf"\d{{4}}-\d\d-\d\d {_TIME}",
    "%Y-%m-%dT%H:%M:%S": rf"\d{{4}}-\d\d-\d\dT{_TIME}",
    "%Y-%m-%dT%H:%M:%S.%f": rf"\d{{4}}-\d\d-\d\dT{_TIME}\.\d{{1,6}}",
    "%Y-%m-%dT%H:%M:%S%z": rf"\d{{4}}-\d\d-\d\dT{_TIME}{_ZONE}",
    "%Y-%m-%dT%H:%M:%S.%f%z": rf"\d{{4}}-\d\d-\d\dT{_TIME}\.\d{{1,6}}{_ZONE}",
}
NULL_TEXTS = frozenset(NULL_VALUES)
_NAN = re.compile(r"[-+]?nan\(\w*\)", re.ASCII | re.IGNORECASE)  # read by Arrow, not by Python
_EPOCH_DAY = date(1970, 1, 1).toordinal()

LONGEST_CACHED = 128  # characters

EncodeByTable = Callable[[Column, Any], Any]
"""Returns the cell of a value of any type, encoded as a table of one row; raises `UnfitCell`."""


class UnfitCell(Exception):
    """Raised for a value that a column cannot represent; the argument says what was expected, if not the kind."""


def refuse_type(column: Column, value: Any) -> Any:
    """Raise `UnfitCell`: an `EncodeByTable` for callers without tables."""
    raise UnfitCell(f"{column.expected} as a plain Python or NumPy value, not {type(value).__name__}")


def level_codes(column: Column) -> Mapping[str, int]:
    """Return the code of each level, or of each word of a boolean column."""
    if column.kind == "boolean":
        return {word: FIRST_LEVEL + flag for word, flag in BOOLEAN_WORDS.items()}
    return {level: FIRST_LEVEL + i for i, level in enumerate(column.levels or ()) if level.strip() not in NULL_TEXTS}


def cell_encoder(column: Column, by_table: EncodeByTable = refuse_type) -> CellEncoder:
    """Return the encoder of the cells of a column."""
    if column.kind == "categorical" and column.hash_of is not None:
        return BucketEncoder(column, by_table)
    return ENCODERS[column.kind](column, by_table)


class CellEncoder(ABC):
    """Function from a value to the cell of a column.

    Parameters
    ----------
    column : Column
    by_table : EncodeByTable
        For values of rare types.
    """

    def __init__(self, column: Column, by_table: EncodeByTable) -> None:
        self.column, self.by_table = column, by_table

    @property
    @abstractmethod
    def null(self) -> Any:
        """The cell of a missing value."""

    def __call__(self, value: Any) -> Any:
        """Return the cell of a value; raise `UnfitCell` if it does not match the kind of the column."""
        if value is None:
            return self.null
        if type(value) is bytes:
            value = bytes_text(value)
        if type(value) is str:
            return self.null if value.strip() in NULL_TEXTS else self.of_text(value)
        return self.of_value(value)

    @abstractmethod
    def of_text(self, text: str) -> Any:
        """Return the cell of a text that does not mean a missing value."""

    @abstractmethod
    def of_value(self, value: Any) -> Any:
        """Return the cell of a value that is neither None nor a str."""


class NumberEncoder(CellEncoder):
    """Encoder of numeric columns: a float that its block rounds to float32 or float64."""

    null = math.nan

    def of_text(self, text: str) -> float:
        """Return the number written in a text."""
        try:
            return self.of_value(read_number(text))
        except ValueError:
            raise UnfitCell from None

    def of_value(self, value: Any) -> float:
        """Return a number; infinite and too large ones are null."""
        kind = type(value)
        if kind is float:
            return float(value) if -LARGEST <= value <= LARGEST else math.nan
        if (kind is int or is_numpy_integer(value)) and -(2**63) <= value < 2**64:
            if -EXACT <= value <= EXACT or self.column.storage != "float32":
                return float(value)
            # float64 in between would round twice
            return float((np.int64(value) if value < 2**63 else np.uint64(value)).astype(np.float32))
        if kind is bool or isinstance(value, np.float16 | np.float32 | np.float64 | np.bool_):
            return self.of_value(float(value))
        return float(self.by_table(self.column, value))


class LevelEncoder(CellEncoder):
    """Encoder of categorical columns: the code of a level."""

    null = NULL

    def __init__(self, column: Column, by_table: EncodeByTable) -> None:
        super().__init__(column, by_table)
        self._codes = level_codes(column)

    def of_text(self, text: str) -> int:
        """Return the code of a level."""
        code = self._codes.get(text)
        return _unseen(text) if code is None else code

    def of_value(self, value: Any) -> int:
        """Return the code of the level that a number or boolean is written as."""
        text = canonical_text(value)
        return int(self.by_table(self.column, value)) if text is None else self.of_text(text) if text else self.null


class BucketEncoder(LevelEncoder):
    """Encoder of hashed columns: the code of a bucket."""

    def __init__(self, column: Column, by_table: EncodeByTable) -> None:
        super().__init__(column, by_table)
        self._code = lru_cache(maxsize=65_536)(lambda text: int(bucket_codes((text,), column.n_buckets)[0]))

    def of_text(self, text: str) -> int:
        """Return the code of the bucket of a level."""
        _require_utf8(text)
        # Long texts are not cached: clients of a server choose them.
        return self._code(text) if len(text) <= LONGEST_CACHED else self._code.__wrapped__(text)


class BooleanEncoder(CellEncoder):
    """Encoder of boolean columns: the code of false or true."""

    null = NULL

    def of_text(self, text: str) -> int:
        """Return the code of a word."""
        word = text.strip().lower()
        if word not in BOOLEAN_WORDS:
            raise UnfitCell
        return FIRST_LEVEL + BOOLEAN_WORDS[word]

    def of_value(self, value: Any) -> int:
        """Return the code of a boolean, or of a number that is 0 or 1."""
        text = canonical_text(value)
        return int(self.by_table(self.column, value)) if text is None else self.of_text(text) if text else self.null


class TextEncoder(CellEncoder):
    """Encoder of text columns: the text itself, None where null."""

    null = None

    def of_text(self, text: str) -> str | None:
        """Return the text."""
        _require_utf8(text)
        return text

    def of_value(self, value: Any) -> str | None:
        """Return the text that a number or boolean is written as."""
        text: str | None = canonical_text(value)
        return self.by_table(self.column, value) if text is None else text or None


class TimeEncoder(CellEncoder):
    """Encoder of datetime columns: microseconds since 1970-01-01 UTC."""

    null = NAT

    def __init__(self, column: Column, by_table: EncodeByTable) -> None:
        super().__init__(column, by_table)
        patterns = (
            list(ISO_FORMATS.values()) if not column.time_format else [ISO_FORMATS.get(column.time_format, "(?!)")]
        )
        self._is_iso = re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.ASCII).fullmatch
        self._per_second = TICKS_PER_SECOND.get(column.time_format or "")

    def of_text(self, text: str) -> int:
        """Return the time written in a text, in the format of the column or else a common one."""
        if self._is_iso(text):
            try:
                return epoch_us(datetime.fromisoformat(text))
            except ValueError:  # such as February 30, which strptime refuses too
                raise UnfitCell from None
        time_format = self.column.time_format or guess_format({text})
        found = None if time_format is None else micros(text, time_format)
        if found is None:
            raise UnfitCell
        return found

    def of_value(self, value: Any) -> int:
        """Return a datetime (without a zone: UTC), a date, or a number in the unit of the column."""
        kind = type(value)
        if kind is datetime and _has_plain_zone(value):
            return epoch_us(value)
        if kind is date:
            return int(value.toordinal() - _EPOCH_DAY) * DAY_US
        if kind is int and self._per_second:
            return _of_ticks(value, self._per_second)
        if kind is float:
            return NAT if value != value else _of_fraction(value, self._per_second)
        if kind is int or kind is bool:
            raise UnfitCell
        return int(self.by_table(self.column, value))


ENCODERS: Mapping[str, type[CellEncoder]] = {
    "numeric": NumberEncoder,
    "boolean": BooleanEncoder,
    "categorical": LevelEncoder,
    "datetime": TimeEncoder,
    "text": TextEncoder,
}


def canonical_text(value: Any) -> str | None:
    """Return a number, boolean or UUID as a level; None for other types.

    Integral floats are written as integers, and NaN as ``""``.
    """
    kind = type(value)
    if kind is bool or isinstance(value, np.bool_):
        return "true" if value else "false"
    if is_numpy_integer(value) or (kind is int and -(2**63) <= value < 2**63):
        return str(int(value))
    if kind is float or isinstance(value, np.float32 | np.float64):
        number = float(value)
        if number != number:
            return ""
        return f"{number + 0.0:.0f}" if number.is_integer() else repr(number)  # + 0.0 turns -0.0 into 0.0
    return exact_text(value)


def read_number(text: str) -> float:
    """Return a text as a number, as tables read it; raise ValueError if it is not a number."""
    try:
        return float(text)
    except ValueError:
        if _NAN.fullmatch(text.strip()):
            return math.nan
        raise


def is_numpy_integer(value: Any) -> bool:
    """Return whether a value is a NumPy integer; NumPy derives durations from integers, too."""
    return isinstance(value, np.integer) and not isinstance(value, np.timedelta64)


def _require_utf8(text: str) -> None:
    """Raise `UnfitCell` for a lone surrogate, which JSON may contain and UTF-8 does not."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UnfitCell("a text without lone surrogates") from None


def _unseen(text: str) -> int:
    _require_utf8(text)
    return UNSEEN


def _has_plain_zone(moment: datetime) -> bool:
    """Return whether the zone of a datetime is unknown, UTC or an offset of whole minutes; tables refuse seconds."""
    zone = moment.tzinfo
    if zone is None or zone is UTC:
        return True
    return type(zone) is timezone and zone.utcoffset(None) % timedelta(minutes=1) == timedelta(0)


def _of_fraction(value: float, per_second: int | None) -> int:
    found = value * (1e6 / per_second) if per_second else math.inf
    if not -(2.0**63) <= found < 2.0**63:
        raise UnfitCell
    return round(found)


def _of_ticks(value: int, per_second: int) -> int:
    found = value * 1_000_000 // per_second if value >= 0 else -(-value * 1_000_000 // per_second)  # towards zero
    if not (-(2**63) <= found < 2**63 and -(2**63) <= value < 2**63):
        raise UnfitCell
    return found

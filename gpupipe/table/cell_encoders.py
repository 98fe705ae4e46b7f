"""Encoders of single cells: raw Python values to the numbers of an encoded table, without Arrow.

The rules are those of `gpupipe.table.encode.encode` for a frozen schema, and give the same bits. Values with a plain
form (`gpupipe.table.plain_values`), decimals and UUIDs are encoded here; other values are encoded as a table of one
row, by a function that the caller provides.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np

from gpupipe.table.hash_buckets import hash_levels
from gpupipe.table.level_text import (
    NULL_TEXTS,
    LevelLookup,
    canonical_text,
    normal_text,
)
from gpupipe.table.list_cells import list_items
from gpupipe.table.number_texts import NumberFormat
from gpupipe.table.plain_values import decimal_number, form_of
from gpupipe.table.schema import BOOLEAN_WORDS, FIRST_LEVEL, LARGEST, NAT, NULL, TIME_TYPES, UNSEEN, Column
from gpupipe.table.temporal_objects import iso_text
from gpupipe.table.time_formats import describe_readings
from gpupipe.table.time_texts import of_ticks, reader_of
from gpupipe.units import TICKS_PER_SECOND

EXACT = 2**53  # float64 represents all integers up to this one
_NAN = re.compile(r"[-+]?nan\(\w*\)", re.ASCII | re.IGNORECASE)  # read by Arrow, not by Python

LONGEST_CACHED = 128  # characters

EncodeByTable = Callable[[Column, Any], Any]
"""Returns the cell of a value of any type, encoded as a table of one row; raises `UnfitCell`."""


class UnfitCell(Exception):
    """Raised for a value that a column cannot represent; the argument says what was expected, if not the kind."""


def refuse_type(column: Column, value: Any) -> Any:
    """Raise `UnfitCell`: an `EncodeByTable` for callers without tables."""
    raise UnfitCell(f"{column.expected} as a plain Python or NumPy value, not {type(value).__name__}")


def cell_encoder(column: Column, by_table: EncodeByTable = refuse_type) -> CellEncoder:
    """Return the encoder of the cells of a column."""
    if column.kind == "categorical" and column.hash_of is not None:
        return BucketEncoder(column, by_table)
    return ENCODERS[column.kind](column, by_table)


class CellEncoder(ABC):
    """Function from a value to the cell of a column; `by_table` is for values of rare types."""

    def __init__(self, column: Column, by_table: EncodeByTable) -> None:
        self.column, self.by_table = column, by_table

    @property
    @abstractmethod
    def null(self) -> Any:
        """The cell of a missing value."""

    def __call__(self, value: Any) -> Any:
        """Return the cell of a value; raise `UnfitCell` if it does not match the kind of the column."""
        kind: Any = type(value)
        if kind is str:
            return self.null if value.strip() in NULL_TEXTS else self.of_text(value)
        if value is None:
            return self.null
        if kind is float or kind is int or (form := form_of(kind)) is None:
            return self.of_value(value)
        found = form.read(value)
        if form.is_time:
            return self.of_time(found)
        return self.of_value(value) if found is value else self(found)

    @abstractmethod
    def of_text(self, text: str) -> Any:
        """Return the cell of a text that does not mean a missing value."""

    @abstractmethod
    def of_value(self, value: Any) -> Any:
        """Return the cell of a plain value that is neither None nor a str, or of one without a plain form."""

    def of_time(self, micros: int) -> Any:
        """Return the cell of a time, in microseconds since 1970-01-01 UTC; `NAT` is missing."""
        return self.null if micros == NAT else self.of_text(normal_text(iso_text(micros)))


class NumberEncoder(CellEncoder):
    """Encoder of numeric columns: a float that its block rounds to float32 or float64."""

    null = math.nan

    def of_text(self, text: str) -> float:
        """Return the number written in a text."""
        if self.column.number_format is not None:
            return self.of_value(NumberFormat.from_json(self.column.number_format).parse(text))
        try:
            return self.of_value(read_number(text))
        except ValueError:
            raise UnfitCell from None

    def of_value(self, value: Any) -> float:
        """Return a number; infinite and too large ones are null."""
        kind = type(value)
        if kind is float:
            return float(value) if -LARGEST <= value <= LARGEST else math.nan
        if kind is int and -(2**63) <= value < 2**64:
            if -EXACT <= value <= EXACT or self.column.storage != "float32":
                return float(value)
            # float64 in between would round twice
            return float((np.int64(value) if value < 2**63 else np.uint64(value)).astype(np.float32))
        if kind is bool or kind is np.float32:
            return self.of_value(float(value))
        if kind is Decimal and (number := decimal_number(value)) is not None:
            return self.of_value(number)
        return float(self.by_table(self.column, value))

    def of_time(self, micros: int) -> float:
        """Return microseconds, if the column has had times as numbers in training."""
        if not self.column.dtype.startswith(TIME_TYPES):
            raise UnfitCell
        return self.null if micros == NAT else self.of_value(micros)


class LevelEncoder(CellEncoder):
    """Encoder of categorical columns: the code of a level."""

    null = NULL

    def __init__(self, column: Column, by_table: EncodeByTable) -> None:
        super().__init__(column, by_table)
        self._code_of = LevelLookup(column)

    def of_text(self, text: str) -> int:
        """Return the code of a level."""
        code = self._code_of(text)
        return _unseen(text) if code is None else code

    def of_value(self, value: Any) -> int:
        """Return the code of the level that a number or boolean is written as."""
        text = canonical_text(value)
        return int(self.by_table(self.column, value)) if text is None else self.of_typed(text) if text else self.null

    def of_typed(self, text: str) -> int:
        """Return the code of the level of a typed value, by its canonical text."""
        code = self._code_of.of_number(text)
        return UNSEEN if code is None else code


class BucketEncoder(LevelEncoder):
    """Encoder of hashed columns: the code of a bucket."""

    def __init__(self, column: Column, by_table: EncodeByTable) -> None:
        super().__init__(column, by_table)
        self._code = lru_cache(maxsize=65_536)(lambda text: int(hash_levels(column, (text,))[0]))

    def of_text(self, text: str) -> int:
        """Return the code of the bucket of a level."""
        _require_utf8(text)
        # Long texts are not cached: clients of a server choose them.
        return self._code(text) if len(text) <= LONGEST_CACHED else self._code.__wrapped__(text)

    of_typed = of_text


class BooleanEncoder(CellEncoder):
    """Encoder of boolean columns: the code of false or true."""

    null = NULL

    def of_text(self, text: str) -> int:
        """Return the code of a word."""
        word = normal_text(text).lower()
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
        return text.strip() if self.column.has_normal_form else text

    def of_value(self, value: Any) -> str | None:
        """Return the text that a number or boolean is written as."""
        text: str | None = canonical_text(value)
        return self.by_table(self.column, value) if text is None else text or None


class TimeEncoder(CellEncoder):
    """Encoder of datetime columns: microseconds since 1970-01-01 UTC."""

    null = NAT

    def __init__(self, column: Column, by_table: EncodeByTable) -> None:
        super().__init__(column, by_table)
        self._read = reader_of(column.time_format)
        self._unit = column.time_format if column.time_format in TICKS_PER_SECOND else None

    def of_text(self, text: str) -> int:
        """Return the time written in a text, in the format of the column, else in ISO 8601."""
        found = self._read(text)
        if found is None:
            raise UnfitCell(*self._readings(text))
        return found

    def of_value(self, value: Any) -> int:
        """Return a number in the unit or format of the column as a time."""
        kind = type(value)
        if kind is Decimal and value.is_finite() and abs(value) < 2**63 and value == (whole := int(value)):
            value, kind = whole, int
        if kind is float or kind is np.float32 or (kind is int and -(2**63) <= value < 2**63):
            if self._unit:
                return of_ticks(value if kind is int else float(value), self._unit)
            text = canonical_text(value)
            return self.of_text(text) if text else self.null
        if kind is bool:
            raise UnfitCell
        return int(self.by_table(self.column, value))

    def of_time(self, micros: int) -> int:
        """Return the time."""
        return micros

    def _readings(self, text: str) -> tuple[str, ...]:
        readings = "" if self.column.time_format or len(text) > LONGEST_CACHED else describe_readings(text)
        return (f"{self.column.expected}: {readings}",) if readings else ()


class ListEncoder(TextEncoder):
    """Encoder of list columns: the items as floats or texts, None where null."""

    def of_text(self, text: str) -> Any:
        """Return the items of a JSON array."""
        return self.of_value(text)

    def of_value(self, value: Any) -> Any:
        """Return the items of a list; raise `UnfitCell` if they do not match the column."""
        if isinstance(value, float) and value != value:
            return None
        try:
            items, kind = list_items(value)
        except ValueError as error:
            raise UnfitCell(f"{self.column.expected}, not {error}") from None
        if kind not in self.column.dtype:
            raise UnfitCell(f"{self.column.expected}, not of {kind}s")
        return items


ENCODERS: Mapping[str, type[CellEncoder]] = {
    "numeric": NumberEncoder,
    "boolean": BooleanEncoder,
    "categorical": LevelEncoder,
    "datetime": TimeEncoder,
    "text": TextEncoder,
    "list": ListEncoder,
}


def read_number(text: str) -> float:
    """Return a text as a number, as tables read it; raise ValueError if it is not a number."""
    try:
        return float(text)
    except ValueError:
        if _NAN.fullmatch(text.strip()):
            return math.nan
        raise


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

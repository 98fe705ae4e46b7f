"""Columns of every kind of value, with the values that real files and frames give them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

DAY_SECONDS = 86_400
LEAP_DAY = 1_709_208_307  # 2024-02-29 12:05:07 UTC, in seconds


@dataclass(frozen=True)
class Kind:
    """A column of one kind of value.

    Attributes
    ----------
    name : str
        The name of the kind, and of its column.
    type : pyarrow.DataType
        The column in typed formats.
    trained : tuple
        Values of training rows: Python values, or ticks since 1970 for types of times. None is missing.
    scored : tuple
        Further values, of scored rows only.
    declared : str or mapping, optional
        The entry of the column in ``schema:``.
    typed : bool
        Whether its values have no equal in formats without types, so that models of CSV and JSON files lack the column.
    numpy : bool
        Whether Python programs hold its values as NumPy scalars: no year after 9999 fits into a datetime.
    """

    name: str
    type: pa.DataType
    trained: tuple[Any, ...]
    scored: tuple[Any, ...] = ()
    declared: Any = None
    typed: bool = False
    numpy: bool = False

    @property
    def values(self) -> tuple[Any, ...]:
        """All values."""
        return (*self.trained, *self.scored)

    def array(self, values: Sequence[Any]) -> pa.Array:
        """Return values as an Arrow array of the type of the kind."""
        if pa.types.is_temporal(self.type):
            width = pa.int32() if pa.types.is_date32(self.type) else pa.int64()
            return pa.array(values, width).view(self.type)
        if self.type == pa.uuid():
            return pa.array([None if value is None else value.bytes for value in values], self.type)
        if pa.types.is_dictionary(self.type):
            return pa.array(values, self.type.value_type).dictionary_encode().cast(self.type)
        return pa.array(values, self.type)

    def plain(self, value: Any) -> Any:
        """Return a value as a Python program holds it."""
        if value is None or isinstance(value, UUID):
            return value
        return np.datetime64(value, self.type.unit) if self.numpy else self.array([value])[0].as_py()


def _ticks(unit: str) -> int:
    return {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[unit]


def _moments(unit: str, *further: int) -> tuple[Any, ...]:
    """Return times around a leap day and before 1970, with the finest fraction of the unit."""
    ticks = _ticks(unit)
    return (LEAP_DAY * ticks, (LEAP_DAY + 40 * DAY_SECONDS) * ticks + ticks // 2, -7_200 * ticks, 0, None, *further)


_US = 1_000_000
_YEAR_1, _YEAR_9999 = -62_135_596_800, 253_402_300_799
_DAY = date(2024, 2, 29).toordinal() - date(1970, 1, 1).toordinal()
_UUIDS = tuple(UUID(int=0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF0 + i * 7**40) for i in range(4))
_ISO = ("2024-02-29", "2024-04-09T05:06:07", "2024-04-09 05:06:07.250000", "1969-12-31T22:00:00Z", None)

KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("boolean", pa.bool_(), (True, False, None)),
        Kind("boolean level", pa.bool_(), (True, False, None), declared="categorical"),
        Kind("small integer", pa.int8(), (0, 5, -128, 127, None)),
        Kind("integer", pa.int64(), (0, 7, 2**24 + 1, -(2**31), None), (2**31 + 1, -1)),
        Kind("large integer", pa.int64(), (2**53 + 1, 2**62 + 1, -(2**63), 0), (2**63 - 1,)),
        Kind("unsigned integer", pa.uint64(), (2**63 + 1, 2**64 - 1, 2**53 + 1, 0), (2**63,)),
        Kind("integer level", pa.int16(), (1, 2, 10, None), (3,), "categorical"),
        Kind("unsigned level", pa.uint64(), (2**63 + 1, 2**63 + 2, 2**53 + 1, 7), (2**63 + 3, 2**53), "categorical"),
        Kind("decimal", pa.decimal128(12, 2), (*map(Decimal, ("0.10", "2.00", "1234567890.25")), None)),
        Kind("decimal level", pa.decimal128(38, 0), (Decimal(10**30 + 1), Decimal(10**30 + 2), Decimal(3), None),
             (Decimal(10**30),), "categorical"),
        Kind("scaled level", pa.decimal128(10, 2), (*map(Decimal, ("1.50", "2.00", "0.25")), None),
             (Decimal("1.51"),), "categorical"),
        Kind("float", pa.float64(), (0.0, 0.1, -0.0, 1e9 + 0.25, math.nan, None),
             (math.inf, -math.inf, 5e-324, 1e300, -1e9)),
        Kind("offset", pa.float64(), (1.7e9, 1.7e9 + 0.25, 1.7e9 + 0.5, 1.7e9 + 59), (1.7e9 + 0.125,)),
        Kind("single", pa.float32(), (0.5, -0.0, 2.25, math.nan, None), (0.1,), typed=True),
        Kind("float level", pa.float64(), (1.0, 2.5, -0.0, math.nan, None), (3.0, 0.1 + 0.2), "categorical"),
        Kind("single level", pa.float32(), (1.0, 2.5, 1.1, None), (1.2,), "categorical", typed=True),
        Kind("digits", pa.string(), ("01", "1", "1.0", "10", "1e1", None), ("001", "2", "1.00"), "categorical"),
        Kind("decimal text", pa.string(), ("1.0", "2.0", "9.50", None), ("1", "2", "9.5", "01"), "categorical"),
        Kind("word", pa.string(), ("True", "False", "Unknown", None), ("true", "TRUE", "false"), "categorical"),
        Kind("blank", pa.string(), ("WD ", " oak", "ash\u00a0", "New York"), ("WD", "oak", "ash", "WD\t"),
             "categorical"),
        Kind("null word", pa.string(), ("x", "y", "None", "", "NA ", None), ("none", "nan"), "categorical"),
        Kind("unicode", pa.string(), ("é", "e\u0301", "日本", "ß", "a\nb", '"'), ("ss", "🦊"), "categorical"),
        Kind("second", pa.timestamp("s"), _moments("s"), declared="datetime"),
        Kind("millisecond", pa.timestamp("ms"), _moments("ms"), declared="datetime"),
        Kind("microsecond", pa.timestamp("us"), _moments("us"), (_YEAR_1 * _US, _YEAR_9999 * _US + 999_999),
             declared="datetime"),
        Kind("nanosecond", pa.timestamp("ns"), _moments("ns"), (LEAP_DAY * 10**9 + 1, -1), declared="datetime"),
        Kind("zoned time", pa.timestamp("us", "Europe/Paris"), _moments("us"), declared="datetime"),
        Kind("extreme time", pa.timestamp("s"), _moments("s"), (2**62, -(2**62), 2**63 - 1), "datetime", numpy=True),
        Kind("day", pa.date32(), (_DAY, _DAY + 31, -1, None), (0,), declared="datetime"),
        Kind("day level", pa.date32(), (_DAY, _DAY + 31, -1, None), (0,), "categorical"),
        Kind("time text", pa.string(), _ISO,
             ("2024-02-29T12:05Z", "2024-02-29T12:05:07.5+01:00", "2024-02-29T12:05:07-0330", "2024-02-29T05+07"),
             "datetime"),
        Kind("time level", pa.string(), ("2024-02-29", "2024-03-31", "2024-04-30"), ("2024-02-29 00:00:00",),
             "categorical"),
        Kind("formatted time", pa.string(), ("29/02/2024", "09/04/2024", "31/12/1969", None), ("01/02/2024",),
             {"kind": "datetime", "format": "%d/%m/%Y"}),
        Kind("epoch", pa.int64(), (LEAP_DAY, LEAP_DAY + 40 * DAY_SECONDS, -7200, 0, None), (2**31,),
             {"kind": "datetime", "format": "s"}),
        Kind("day number", pa.int32(), (20240229, 20240409, 19691231, None), (20240101,),
             {"kind": "datetime", "format": "%Y%m%d"}),
        Kind("identifier", pa.uuid(), (*_UUIDS[:3], None), _UUIDS[3:], "categorical"),
        Kind("code", pa.dictionary(pa.int8(), pa.int64()), (1, 2, 10, None), (3,), "categorical"),
        Kind("plan", pa.dictionary(pa.int32(), pa.string()), ("basic", "plus", "pro", None), ("other",)),
        Kind("note", pa.string(), ("a quick fox", "2024-02-29", " two  words ", "01", None), ("WD 40", "1.0"), "text"),
    )
}  # fmt: skip


def arrow_table(kinds: Sequence[Kind], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table of the types of their kinds."""
    return pa.table({kind.name: kind.array([row[kind.name] for row in rows]) for kind in kinds})


def training_rows(kinds: Sequence[Kind], n_rows: int) -> tuple[list[dict[str, Any]], list[float]]:
    """Return rows with all training values of each kind in random order, and targets that need each value."""
    columns, y = {}, np.zeros(n_rows)
    for kind in kinds:
        rng = np.random.default_rng([77, *kind.name.encode()])
        chosen = rng.permutation(n_rows) % len(kind.trained)
        columns[kind.name] = [kind.trained[i] for i in chosen]
        y += rng.normal(size=len(kind.trained))[chosen]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)], y.tolist()


def text_of(value: Any) -> str | None:
    """Return a cell as pandas, Python and Java programs write it in CSV: None and NaN as nothing."""
    if is_without_text(value):
        return None
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value)


def is_without_text(value: Any) -> bool:
    """Return whether text formats write nothing for a cell: it is missing, or a time after the year 9999."""
    if isinstance(value, np.datetime64):
        return not _YEAR_1 <= value.astype("datetime64[s]").astype(int) <= _YEAR_9999
    return value is None or bool(value != value)

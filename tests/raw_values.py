"""Raw values of single rows, of every type, at the edges of what a column can represent; a table of every kind."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

TEXTS = [
    "", " ", "a", "B", "a\n", "ab", "é", "\ud800", "no", " Yes ", "T", "0", "1", "+1", " 3 ", "1_0", "١", "0.1",
    "-2.5e3", "1e400", "nan", " NA ", "None", "null", "nan(x)", "NaN()", "-inf", "0x10", "9007199254740993",
    "16777217", "2020-01-01",
    "2020-1-2", "2020-02-30", "01/02/2020", "25/02/2020",
    "2020-02-29 12:30:00", "2020-02-29T12:30:00+01:00", "2020-02-29T12:30:00+01:75", "20200101",
]  # fmt: skip


class Level(enum.IntEnum):
    ONE = 1


NUMBERS: list[Any] = [
    0, 1, -1, 2, 3, 127, 128, -129, 2**24, 2**24 + 1, 2**31, 2**53 + 1, 2**62, 2**63, -(2**63), 10**30,
    0.0, -0.0, 0.1, 1.0, 1.5, 3.0, 1e16, 2.0**125, 2.0**126, 1e300, np.nan, np.inf, -np.inf,
]  # fmt: skip
OTHERS: list[Any] = [
    np.float32(0.1), np.float32(1e38), np.float32("nan"), np.float16(0.1), np.float64(0.1), np.float32(-129),
    np.int8(-128), np.uint8(200), np.int64(2**24 + 1), np.uint64(2**63), np.bool_(True), np.str_("a"), np.array(1),
    np.longdouble(1), np.datetime64("2020-01-01"), np.datetime64("NaT"), np.timedelta64(3, "s"), Level.ONE,
    pd.NA, pd.NaT, pd.Timestamp("2020-01-01T00:00:00.000000001"), pd.Timedelta(1, "s"), UUID(int=3), object(),
    Decimal("0.3"), Decimal("3"), Decimal("NaN"), Decimal("1e50"), 1j, b"a", [1], {"a": 1},
    datetime(1970, 1, 1, 0, 0, 5), datetime(2020, 2, 29, 12, 30, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    date(2020, 1, 1), date(1, 1, 1), time(12, 30), timedelta(seconds=3),
    datetime(2020, 1, 1, tzinfo=timezone(timedelta(seconds=5405))), datetime(2020, 7, 1, tzinfo=ZoneInfo("Asia/Tokyo")),
]  # fmt: skip
VALUES = [None, True, False, *TEXTS, *NUMBERS, *OTHERS]

START = datetime(2020, 1, 1)


def mixed_frame(n: int) -> pd.DataFrame:
    """Return rows with an input of every kind and storage, and the target ``left``."""
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "price": rng.normal(10, 3, n),
            "single": rng.normal(0, 1, n).astype(np.float32),
            "count": rng.integers(0, 9, n),
            "flag": rng.random(n) < 0.5,
            "plan": rng.choice(np.array(["a", "b", "1", "2.5", "true", None], object), n),
            "city": [f"c{i}" for i in rng.integers(0, 40, n)],
            "start": pd.Series(START + timedelta(days=int(i)) for i in rng.integers(0, 900, n)),
            "day": [f"{i % 28 + 1:02d}/{i % 12 + 1:02d}/2021" for i in rng.integers(0, 900, n)],
            "epoch": rng.integers(1_500_000_000, 1_700_000_000, n),
            "note": [f"call {i} about the bill {i % 7}" for i in rng.integers(0, 900, n)],
            "left": rng.integers(0, 2, n),
        }
    )

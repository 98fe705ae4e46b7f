"""The calendar against the standard library's and pandas'."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe_kernels.formulas.calendar import part
from gpupipe_kernels.opcodes import PART_SIZES, Part

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STAMPS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda t: t.replace(tzinfo=UTC))

EXPECTED = {
    Part.YEAR: lambda t: t.year,
    Part.QUARTER: lambda t: (t.month - 1) // 3 + 1,
    Part.MONTH: lambda t: t.month,
    Part.DAY: lambda t: t.day,
    Part.DAY_OF_YEAR: lambda t: t.timetuple().tm_yday,
    Part.WEEKDAY: lambda t: t.weekday(),
    Part.HOUR: lambda t: t.hour,
    Part.MINUTE: lambda t: t.minute,
    Part.SECOND: lambda t: t.second,
    Part.HOUR_OF_WEEK: lambda t: t.weekday() * 24 + t.hour,
    Part.IS_WEEKEND: lambda t: int(t.weekday() >= 5),
    Part.IS_MONTH_START: lambda t: int(t.day == 1),
    Part.IS_MONTH_END: lambda t: int(t.month != (t + timedelta(days=1)).month) if t.year < 9999 else None,
}


@pytest.mark.parametrize("which", list(Part))
@given(stamp=STAMPS)
def test_a_part_is_that_of_the_standard_library(which: Part, stamp: datetime) -> None:
    expected = EXPECTED[which](stamp)
    micros = (stamp - EPOCH) // timedelta(microseconds=1)
    if expected is not None:
        assert part(micros, which) == expected
        assert part(np.array([micros]), which)[0] == expected


def test_every_day_of_four_centuries_is_that_of_pandas() -> None:
    days = pd.date_range("1900-01-01", "2260-01-01", freq="D", unit="us")
    micros = days.to_numpy().astype("datetime64[us]").astype(np.int64)
    for which, expected in {
        Part.YEAR: days.year,
        Part.MONTH: days.month,
        Part.DAY: days.day,
        Part.DAY_OF_YEAR: days.day_of_year,
        Part.WEEKDAY: days.day_of_week,
        Part.IS_MONTH_END: days.is_month_end.astype(int),
    }.items():
        np.testing.assert_array_equal(part(micros, which), expected)


@pytest.mark.parametrize("which", list(PART_SIZES))
@given(stamp=STAMPS)
def test_a_part_that_is_an_index_stays_inside_its_table(which: Part, stamp: datetime) -> None:
    assert 0 <= part((stamp - EPOCH) // timedelta(microseconds=1), which) < PART_SIZES[which]

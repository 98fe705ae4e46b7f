"""Calendar parts against the standard library and pandas."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe_kernels.formulas.calendar import part
from gpupipe_kernels.program.opcodes import PART_SIZES, CalendarPart

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STAMPS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)).map(lambda t: t.replace(tzinfo=UTC))

EXPECTED = {
    CalendarPart.YEAR: lambda t: t.year,
    CalendarPart.QUARTER: lambda t: (t.month - 1) // 3 + 1,
    CalendarPart.MONTH: lambda t: t.month,
    CalendarPart.DAY: lambda t: t.day,
    CalendarPart.DAY_OF_YEAR: lambda t: t.timetuple().tm_yday,
    CalendarPart.WEEKDAY: lambda t: t.weekday(),
    CalendarPart.HOUR: lambda t: t.hour,
    CalendarPart.MINUTE: lambda t: t.minute,
    CalendarPart.SECOND: lambda t: t.second,
    CalendarPart.HOUR_OF_WEEK: lambda t: t.weekday() * 24 + t.hour,
    CalendarPart.IS_WEEKEND: lambda t: int(t.weekday() >= 5),
    CalendarPart.IS_MONTH_START: lambda t: int(t.day == 1),
    CalendarPart.IS_MONTH_END: lambda t: int(t.month != (t + timedelta(days=1)).month) if t.year < 9999 else None,
}


@pytest.mark.parametrize("which", list(CalendarPart))
@given(stamp=STAMPS)
def test_a_part_is_that_of_the_standard_library(which: CalendarPart, stamp: datetime) -> None:
    expected = EXPECTED[which](stamp)
    micros = (stamp - EPOCH) // timedelta(microseconds=1)
    if expected is not None:
        assert part(micros, which) == expected
        assert part(np.array([micros]), which)[0] == expected


def test_every_day_of_four_centuries_is_that_of_pandas() -> None:
    days = pd.date_range("1900-01-01", "2260-01-01", freq="D", unit="us")
    micros = days.to_numpy().astype("datetime64[us]").astype(np.int64)
    for which, expected in {
        CalendarPart.YEAR: days.year,
        CalendarPart.MONTH: days.month,
        CalendarPart.DAY: days.day,
        CalendarPart.DAY_OF_YEAR: days.day_of_year,
        CalendarPart.WEEKDAY: days.day_of_week,
        CalendarPart.IS_MONTH_END: days.is_month_end.astype(int),
    }.items():
        np.testing.assert_array_equal(part(micros, which), expected)


@pytest.mark.parametrize("which", list(PART_SIZES))
@given(stamp=STAMPS)
def test_a_part_that_is_an_index_stays_inside_its_table(which: CalendarPart, stamp: datetime) -> None:
    assert 0 <= part((stamp - EPOCH) // timedelta(microseconds=1), which) < PART_SIZES[which]

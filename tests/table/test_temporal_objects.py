"""Times of Python, NumPy and pandas, alone and together, in frames and rows."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.io.source_reader import plain_arrow
from gpupipe.table.frames import frame_to_arrow, rows_to_arrow
from gpupipe.table.schema import NAT
from gpupipe.table.temporal_objects import numpy_us, object_us
from tests.examples import examples

NOON = datetime(2024, 1, 31, 12)
TOKYO = ZoneInfo("Asia/Tokyo")
SECONDS = timezone(timedelta(seconds=3608))


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps"])
@examples(30)
@given(ticks=st.integers(-(10**4), 10**4))
def test_numpy_times_are_those_of_numpy(unit: Any, ticks: int) -> None:
    value = np.datetime64(ticks % 300 if unit in "YM" else ticks, unit)
    assert numpy_us(value) == int(value.astype("datetime64[us]").astype(np.int64))


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms"])
def test_numpy_times_out_of_range_are_missing(unit: Any) -> None:
    for ticks in (2**62, -(2**62)):
        assert numpy_us(np.datetime64(ticks, unit)) == NAT
        column = frame_to_arrow({"t": np.array([ticks, 0], f"datetime64[{unit}]")})
        assert plain_arrow(column)["t"].to_pylist() == [None, datetime(1970, 1, 1)]


MIXED: dict[str, tuple[list[Any], list[datetime | None]]] = {
    "a date first": ([date(2024, 1, 31), NOON], [datetime(2024, 1, 31), NOON]),
    "a date last": ([NOON, date(2024, 1, 31)], [NOON, datetime(2024, 1, 31)]),
    "no zone first": ([NOON, NOON.replace(tzinfo=timezone(timedelta(hours=3)))], [NOON, NOON - timedelta(hours=3)]),
    "zones": ([NOON.replace(tzinfo=TOKYO), NOON.replace(tzinfo=UTC)], [NOON - timedelta(hours=9), NOON]),
    "offsets with seconds": ([NOON.replace(tzinfo=SECONDS), NOON], [NOON - timedelta(seconds=3608), NOON]),
    "of NumPy": ([np.datetime64("2024-01-31T12", "h"), NOON, np.datetime64("NaT"), None], [NOON, NOON, None, None]),
    "of pandas": ([pd.Timestamp(NOON), date(2024, 1, 31), pd.NaT], [NOON, datetime(2024, 1, 31), None]),
    "out of range": ([np.datetime64(2**62, "s"), NOON], [None, NOON]),
}  # fmt: skip


@pytest.mark.parametrize(("values", "expected"), MIXED.values(), ids=MIXED)
def test_a_time_does_not_depend_on_the_types_with_it(values: list[Any], expected: list[datetime | None]) -> None:
    given = {
        "rows": [{"t": value} for value in values],
        "columns": {"t": values},
        "frame": pd.DataFrame({"t": pd.Series(values, dtype=object)}),
    }
    for road, data in given.items():
        column = plain_arrow(rows_to_arrow(data, ["t"]))["t"]
        assert column.cast(pa.timestamp("us")).to_pylist() == expected, road
    for value, moment in zip(values, expected, strict=True):
        alone = plain_arrow(rows_to_arrow([{"t": value}], ["t"]))["t"].to_pylist()[0]
        assert alone == moment


def test_texts_with_times_are_texts_of_iso_8601() -> None:
    for data in ([{"t": "2024-02-01"}, {"t": NOON}], {"t": ["2024-02-01", NOON]}):
        assert rows_to_arrow(data, ["t"])["t"].to_pylist() == ["2024-02-01", "2024-01-31 12:00:00.000000"]


def test_a_pandas_column_with_an_offset_of_seconds_is_read() -> None:
    frame = pd.DataFrame({"t": pd.Series([NOON]).dt.tz_localize(SECONDS), "x": [1]})
    assert plain_arrow(frame_to_arrow(frame))["t"].to_pylist() == [NOON - timedelta(seconds=3608)]


def test_the_last_times_of_python_are_read_in_every_zone() -> None:
    last = datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-3)))
    assert object_us(last) == object_us(last.replace(tzinfo=UTC)) + 3 * 3_600_000_000
    assert rows_to_arrow([{"t": last}], ["t"])["t"].cast(pa.int64()).to_pylist() == [object_us(last)]

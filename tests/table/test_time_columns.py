"""Time stamps from every type and text format, against NumPy and the standard library."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import SchemaError
from tests.examples import examples

STAMPS = st.lists(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)) | st.none(), max_size=20)
DAY = 86_400_000_000


def micros(stamps: list) -> list:
    """Return microseconds since 1970-01-01 UTC, by NumPy."""
    return [None if stamp is None else int(np.datetime64(stamp, "us").astype(np.int64)) for stamp in stamps]


@examples(40)
@given(stamps=STAMPS, unit=st.sampled_from(["s", "ms", "us", "ns"]))
def test_time_stamps_of_every_unit(encoded, meaning, stamps: list, unit: str) -> None:
    whole = [None if stamp is None else stamp.replace(microsecond=0) for stamp in stamps]
    column = pa.array(whole, pa.timestamp("us")).cast(pa.timestamp(unit))
    assert meaning(encoded({"t": column}), "t") == micros(whole)


@examples(30)
@given(stamps=STAMPS, zone=st.sampled_from(["UTC", "Asia/Tokyo", "America/New_York", "+05:30"]))
def test_time_stamps_with_a_zone_are_utc(encoded, meaning, stamps: list, zone: str) -> None:
    aware = [None if stamp is None else stamp.replace(tzinfo=UTC) for stamp in stamps]
    assert meaning(encoded({"t": pa.array(aware, pa.timestamp("us", zone))}), "t") == micros(stamps)


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_are_midnight(encoded, meaning, kind: pa.DataType) -> None:
    column = pa.array([date(1970, 1, 2), None, date(1969, 12, 31), date(1900, 3, 1)], kind)
    assert meaning(encoded({"t": column}), "t") == [DAY, None, -DAY, -25_508 * DAY]


@pytest.mark.parametrize(
    "time_format",
    [
        "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y/%m/%d", "%m/%d/%Y", "%d/%m/%Y",
        "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%d.%m.%Y", "%d-%m-%Y", "%Y%m%d",
        "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f",
        "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%fZ",
    ],
)  # fmt: skip
def test_common_ways_to_write_a_time_are_known(encoded, meaning, time_format: str) -> None:
    stamps = [datetime(1965, 12, 31, 23, 59, 1), datetime(2024, 2, 29, 7, 5, 9), datetime(2001, 1, 13)]
    texts = [stamp.strftime(time_format) for stamp in stamps]
    expected = [datetime.strptime(text, time_format) for text in texts]
    assert meaning(encoded({"t": [*texts, None, " "]}, t="datetime"), "t") == [*micros(expected), None, None]


def test_a_format_that_is_stated_is_followed(encoded, meaning) -> None:
    texts = ["13h05 on 2/1/24", None]
    assert meaning(encoded({"t": texts}, t=("datetime", "%Hh%M on %d/%m/%y")), "t") == [
        *micros([datetime(2024, 1, 2, 13, 5)]), None
    ]  # fmt: skip
    zoned = encoded({"t": ["2024-01-01 12:00 +0200"]}, t=("datetime", "%Y-%m-%d %H:%M %z"))
    assert meaning(zoned, "t") == micros([datetime(2024, 1, 1, 10)])


def test_a_format_that_was_guessed_is_kept_in_the_schema(encoded, meaning) -> None:
    schema = encoded({"t": ["31/12/2020", "01/02/2020"]}, t="date").schema
    assert schema["t"].time_format == "%d/%m/%Y"
    assert meaning(encoded({"t": ["01/02/2020"]}, frozen=schema), "t") == micros([datetime(2020, 2, 1)])


def test_text_of_another_format_is_named_with_its_rows(encoded) -> None:
    with pytest.raises(
        SchemaError,
        match=r"(?s)expected a time in the format '%d.%m.%Y' in column 't'; found '32.01.2020'.*data row 1\n",
    ):
        encoded({"t": ["31.01.2020", "32.01.2020"]}, t=("datetime", "%d.%m.%Y"))
    with pytest.raises(SchemaError, match=r"(?s)no known time format matches all values.*format: "):
        encoded({"t": ["the 3rd of May"]}, t="datetime")


@examples(40)
@given(seconds=st.lists(st.integers(-(10**10), 10**10) | st.none(), max_size=20), as_float=st.booleans())
def test_numbers_are_times_in_their_unit(encoded, meaning, seconds: list, as_float: bool) -> None:
    for unit, factor in {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}.items():
        if unit == "ns" and any(abs(value or 0) > 9 * 10**9 for value in seconds):
            continue
        numbers = [None if value is None else value * factor for value in seconds]
        column = pa.array(numbers, pa.int64())
        if as_float and unit != "ns":
            column = column.cast(pa.float64(), safe=False)
        expected = [None if value is None else value * 10**6 for value in seconds]
        assert meaning(encoded({"t": column}, t=("datetime", unit)), "t") == expected


def test_fractions_of_a_second_and_gaps_are_kept(encoded, meaning) -> None:
    column = pa.array([1.25, float("nan"), -0.5])
    assert meaning(encoded({"t": column}, t=("datetime", "s")), "t") == [1_250_000, None, -500_000]


def test_numbers_without_a_unit_or_in_the_wrong_one_are_refused(encoded) -> None:
    with pytest.raises(SchemaError, match=r"(?s)expected a unit for the times in column 't'.*format: s"):
        encoded({"t": [1, 2]}, t="datetime")
    with pytest.raises(SchemaError, match=r"(?s)cannot convert the numbers in column 't' to times in 's'.*unit"):
        encoded({"t": [1_700_000_000_000_000_000]}, t=("datetime", "s"))
    with pytest.raises(SchemaError, match="to times in 's'"):
        encoded({"t": [np.inf]}, t=("datetime", "s"))


@pytest.mark.parametrize(
    "column", [pa.nulls(2), pa.array([None, ""], pa.string()), pa.array([None, None], pa.date32())]
)
def test_a_column_without_any_time_is_all_null(encoded, meaning, column: pa.Array) -> None:
    assert meaning(encoded({"t": column}, t="datetime"), "t") == [None, None]

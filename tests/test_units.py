"""Parsing and formatting of sizes, durations and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.units import (
    DURATION_UNITS_US,
    GIB,
    KIB,
    MIB,
    SIZE_UNITS,
    epoch_us,
    format_duration,
    format_latency,
    format_rate,
    format_size,
    format_whole_seconds,
    is_time,
    iso_us,
    parse_duration_us,
    parse_size,
    parse_time_us,
)

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("1024", 1024), ("0", 0), ("10B", 10), ("8GiB", 8 * GIB), (" 20 gib ", 20 * GIB),
        ("1.5kib", 1536),
        ("2MiB", 2 * MIB), ("500 MB", 5 * 10**8), ("1e3 KB", 10**6), ("3TB", 3 * 10**12), ("1TiB", 1024 * GIB),
        ("-1KiB", -KIB),
    ],
)  # fmt: skip
def test_a_size_is_a_number_of_bytes_or_has_a_unit(text: str, n_bytes: int) -> None:
    assert parse_size(text) == n_bytes


@pytest.mark.parametrize("text", ["", "much", "16GX", "GiB", "1 2 GiB", "1e999", "nan", "inf", "8 GiB of it"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"expected a size such as 20GiB or 500MB, got {text!r}")):
        parse_size(text)


@given(st.integers(0, 2**20), st.sampled_from(sorted(SIZE_UNITS)), st.sampled_from(["", " "]))
def test_sizes_round_trip(number: int, unit: str, space: str) -> None:
    assert parse_size(f"{number}{space}{unit.lower()}") == number * SIZE_UNITS[unit]


@given(st.integers(0, 1000 * SIZE_UNITS["TIB"]))
def test_a_formatted_size_is_one_that_is_parsed(n_bytes: int) -> None:
    assert parse_size(format_size(n_bytes)) == pytest.approx(n_bytes, rel=0.05)


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1us", 1), ("2ms", 2_000), ("90s", 90_000_000), ("90min", 5_400_000_000), ("1.5 h", 5_400_000_000),
        (" 30d ", 30 * DAY), ("2w", 14 * DAY),
    ],
)  # fmt: skip
def test_a_duration_is_a_number_with_a_unit(text: str, us: int) -> None:
    assert parse_duration_us(text) == us == parse_duration_us(text, allow_zero=True)


@pytest.mark.parametrize(
    ("text", "allow_zero", "message"),
    [
        ("2 fortnights", False, "or 90min (units: us, ms, s, min, h, d, w), got '2 fortnights'"),
        ("30", False, "got '30'"),
        ("-1d", True, "got '-1d'"),
        ("0", False, "got '0'"),
        ("0d", False, "expected a duration of at least 1us, got '0d'"),
        ("0.1us", True, "expected a duration of at least 1us, got '0.1us'"),
        ("10000000w", False, "less than 146,000 years, got '10000000w'"),
        ("9" * 400 + "w", False, "less than 146,000 years"),
    ],
)  # fmt: skip
def test_what_is_not_a_duration_is_refused(text: str, allow_zero: bool, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_duration_us(text, allow_zero=allow_zero)


@pytest.mark.parametrize("text", ["0", " 0 ", "0d", "0.0 h"])
def test_no_duration_where_zero_is_allowed(text: str) -> None:
    assert parse_duration_us(text, allow_zero=True) == 0


@given(st.data(), st.sampled_from(sorted(DURATION_UNITS_US)))
def test_durations_round_trip(data: st.DataObject, unit: str) -> None:
    number = data.draw(st.integers(1, 2**52 // DURATION_UNITS_US[unit]))
    assert parse_duration_us(f"{number}{unit}") == number * DURATION_UNITS_US[unit]


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1970-01-02", DAY), (" 1970-01-01T00:00:01 ", 1_000_000), ("1970-01-01T00:00:00.600001", 600_001),
        ("1970-01-02T01:00:00+01:00", DAY), ("1969-12-31T23:59:59.9", -100_000),
    ],
)  # fmt: skip
def test_a_time_is_utc_unless_it_names_a_zone(text: str, us: int) -> None:
    assert parse_time_us(text) == us and is_time(text)


def test_what_is_not_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match=r"such as 2011-09-10 or 2011-09-10T12:00:00, got 'soon'"):
        parse_time_us("soon")
    assert not is_time("soon")


@given(st.datetimes(), st.integers(-14 * 60, 14 * 60))
def test_times_round_trip(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    us = parse_time_us(zoned.isoformat())
    assert us == epoch_us(zoned)
    assert timedelta(microseconds=us) == zoned - datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("n_bytes", "shown"),
    [(None, "–"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (GIB, "1.0 GiB"), (2**52, "4096.0 TiB")],
)
def test_sizes_are_binary(n_bytes: int | None, shown: str) -> None:
    assert format_size(n_bytes) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0004, "0.4 ms"), (0.012, "12 ms"), (0.9996, "1.00 s"), (1.239, "1.24 s"), (59.996, "1 min 00 s"),
     (125.4, "2 min 05 s"), (11220, "3 h 07 min"), (None, "–")],
)  # fmt: skip
def test_durations_have_the_unit_that_suits_them(seconds: float | None, shown: str) -> None:
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(85.31e-6, "85.3 us"), (2e-3, "2 ms"), (1.2396e-3, "1.24 ms"), (999.6e-6, "1 ms"), (0.31, "310 ms"),
     (0.9996, "1.00 s"), (3600.0, "1 h 00 min"), (1e-9, "0.001 us"), (None, "–")],
)  # fmt: skip
def test_latencies_have_three_digits(seconds: float | None, shown: str) -> None:
    assert format_latency(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.4, "0 s"), (12.3, "12 s"), (59.6, "1 min 00 s"), (125.4, "2 min 05 s")]
)
def test_running_times_are_whole_seconds(seconds: float, shown: str) -> None:
    assert format_whole_seconds(seconds) == shown


@pytest.mark.parametrize(
    ("rate", "shown"), [(820.0, "820 rows/s"), (235_400.0, "235k rows/s"), (1.23e6, "1.2M rows/s"), (None, "–")]
)
def test_rates_are_short(rate: float | None, shown: str) -> None:
    assert format_rate(rate) == shown


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-31", "2024-01-31T05", "2024-01-31T05:06", "2024-01-31 05:06:07", "2024-01-31T05:06:07.25",
        "2024-01-31T05:06:07,25", "2024-01-31T05:06:07.1234567", "2024-01-31T05:06:07.123456789Z", "2024-01-31T05:06Z",
        "2024-01-31T05+07", "2024-01-31T05:06+0730", "2024-01-31T05:06:07-03:30", "20240131T050607", "20240131 0506+01",
        "2024-01-31t05:06", "0001-01-01T00:00+01:00", "9999-12-31T23:59:59.999999-23:59", "1969-12-31T23:59:59.999999",
    ],
)  # fmt: skip
def test_iso_8601_is_read_as_by_the_standard_library(text: str) -> None:
    moment = datetime.fromisoformat(text)
    since = moment.replace(tzinfo=moment.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    assert iso_us(text) == iso_us(f" {text}\n") == since // timedelta(microseconds=1)


def test_lower_case_and_the_year_0_are_read() -> None:
    assert iso_us("2024-01-31t05:06z") == iso_us("2024-01-31T05:06Z")
    assert iso_us("0000-12-31") == parse_time_us("0001-01-01") - 86_400_000_000
    assert iso_us("0000-02-29") is not None  # a leap year


@pytest.mark.parametrize(
    "text",
    [
        "", "2024", "2024-01", "20240131", "2024-1-5", "2024-02-30", "2024-13-01", "0100-02-29", "2024-W05-3",
        "2024-031", "2024-01-31T", "2024-01-31T24:00", "2024-01-31T05:06:60", "2024-01-31T05:06.5",
        "2024-01-31T05:06:07.1234567891", "2024-01-31Z", "2024-01-31T05:06+24:00", "2024-01-31T05:06+03:00:30",
        "2024-01-31T05:06 +03:00", "2024-01-31x05:06", "2024-01-31T05:06:07.", "٢٠٢٤-٠١-٣١", "２０２４-01-31",
        "-0001-01-01", "+2024-01-31", "03/06/2024",
    ],
)  # fmt: skip
def test_other_texts_are_not_iso_8601(text: str) -> None:
    assert iso_us(text) is None

"""Time stamps from every type and text format, against NumPy and the standard library."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import SchemaError
from gpupipe.table.time_columns import iso_times
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
        "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%d.%m.%Y", "%d-%m-%Y", "%d-%b-%Y", "%B %d, %Y", "%m/%d/%y %I:%M:%S %p",
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
    for values, advice in {
        (1, 2): "select other columns: 1 to 2",
        (1_700_000_000, 1_710_000_000): "format: 's'",
        (20240131, 20241231): "format: '%Y%m%d'",
        (1990, 2024): "format: '%Y'",
    }.items():
        with pytest.raises(SchemaError, match=f"(?s)expected a unit for the times in column 't'.*{advice}"):
            encoded({"t": list(values)}, t="datetime")
    with pytest.raises(SchemaError, match=r"(?s)no number in column 't' is a time in 's'.*correct the unit"):
        encoded({"t": [1_700_000_000_000_000_000]}, t=("datetime", "s"))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1e300, np.inf, -np.inf, np.nan, 1.5]),
        pa.array([2**63 - 1, -(2**63), None, 10**13, 1], pa.int64()),
        pa.array([2**64 - 1, 2**63, None, 10**13, 1], pa.uint64()),
        pa.array(["1e300", " inf", "", "-99999999999999", "1"]),
        pa.array([Decimal(10) ** 30, Decimal(10) ** 14, None, None, Decimal(1)], pa.decimal128(38, 0)),
    ],
    ids=lambda column: str(column.type),
)
def test_numbers_that_microseconds_cannot_hold_are_missing(encoded, meaning, column: pa.Array) -> None:
    *missing, known = meaning(encoded({"t": column}, t=("datetime", "s")), "t")
    assert missing == [None] * 4 and known in (1_000_000, 1_500_000)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (
            pa.array([2**62, -(2**62), 9_223_372_036_854, 0], pa.timestamp("s")),
            [None, None, 9_223_372_036_854_000_000, 0],
        ),
        (pa.array([2**62, -(2**63), 1, 0], pa.timestamp("ms", "Asia/Tokyo")), [None, None, 1000, 0]),
        (pa.array([2**63 - 1, -(2**63), 1, 0], pa.timestamp("us")), [2**63 - 1, None, 1, 0]),
        (pa.array([-1, -1000, 999, -(2**63)], pa.timestamp("ns")), [-1, -1, 0, -9_223_372_036_854_776]),
        (pa.array([2**31 - 1, -(2**31), 1, 0], pa.date32()), [None, None, DAY, 0]),
        (pa.array([86_400_000 * 10**9, 0, None, -86_400_000], pa.date64()), [None, 0, None, -DAY]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_times_at_the_limits_are_exact_or_missing(encoded, meaning, column: pa.Array, expected: list) -> None:
    assert meaning(encoded({"t": column}), "t") == expected
    frozen = encoded({"t": pa.array([0], pa.timestamp("us"))}).schema
    assert meaning(encoded({"t": column}, frozen=frozen), "t") == expected


@pytest.mark.parametrize(
    ("time_format", "numbers", "expected"),
    [
        ("%Y%m%d", [20240131, 20240229], [datetime(2024, 1, 31), datetime(2024, 2, 29)]),
        ("%Y", [2024, 1969], [datetime(2024, 1, 1), datetime(1969, 1, 1)]),
        ("%Y%m", [202402, 196912], [datetime(2024, 2, 1), datetime(1969, 12, 1)]),
        ("%Y%m%d%H%M%S", [20240131050607, 19700101000000], [datetime(2024, 1, 31, 5, 6, 7), datetime(1970, 1, 1)]),
        ("%d%m%Y", [1022024, 31012024], [datetime(2024, 2, 1), datetime(2024, 1, 31)]),  # a leading zero is lost
        ("%y%j", [24031, 70001], [datetime(2024, 1, 31), datetime(1970, 1, 1)]),
    ],
)
def test_digits_are_times_in_their_format(encoded, meaning, time_format: str, numbers: list, expected: list) -> None:
    columns = {
        "whole": pa.array([*numbers, None], pa.int64()),
        "floats": pa.array([*map(float, numbers), None]),
        "nan": pa.array([*map(float, numbers), np.nan]),
        "decimal": pa.array([*map(Decimal, numbers), None], pa.decimal128(20, 0)),
        "text": pa.array([*map(str, numbers), " "]),
    }
    table = encoded(columns, **dict.fromkeys(columns, ("datetime", time_format)))
    for name in columns:
        assert meaning(table, name) == [*micros(expected), None], name


@pytest.mark.parametrize("number", [20240132, 2024111, 131, -20240131, 20240131.5, 202401311, np.inf])
def test_digits_without_a_date_are_refused(encoded, number: float) -> None:
    with pytest.raises(SchemaError, match="expected a time in the format '%Y%m%d' in column 't'; found"):
        encoded({"t": [20240131, number]}, t=("datetime", "%Y%m%d"))


@pytest.mark.parametrize(
    ("texts", "readings"),
    [
        (["03/06/2024"], ["3 June 2024 as '%d/%m/%Y'", "6 March 2024 as '%m/%d/%Y'"]),
        (["03.06.2024 08:30", None], ["3 June 2024 08:30 as '%d.%m.%Y %H:%M'", "6 March 2024 08:30 as"]),
        (["03-06-2024"], ["'%d-%m-%Y'", "'%m-%d-%Y'"]),
        (["24-06-15"], ["24 June 2015 as '%d-%m-%y'", "15 June 2024 as '%y-%m-%d'"]),
    ],
)
def test_an_ambiguous_text_is_refused_with_its_readings(encoded, texts: list, readings: list[str]) -> None:
    iso = encoded({"t": ["2024-01-31"]}, t="datetime").schema
    for options in ({"t": "datetime"}, {"frozen": iso}):
        with pytest.raises(SchemaError) as error:
            encoded({"t": texts}, **options)
        assert all(reading in str(error.value) for reading in readings)


def test_a_recorded_format_is_not_replaced_by_iso_8601(encoded) -> None:
    schema = encoded({"t": ["31/12/2020"]}, t="date").schema
    with pytest.raises(SchemaError, match="expected a time in the format '%d/%m/%Y' in column 't'; found '2020-12-31'"):
        encoded({"t": ["2020-12-31"]}, frozen=schema)


@pytest.mark.parametrize(
    "column", [pa.nulls(2), pa.array([None, ""], pa.string()), pa.array([None, None], pa.date32())]
)
def test_a_column_without_any_time_is_all_null(encoded, meaning, column: pa.Array) -> None:
    assert meaning(encoded({"t": column}, t="datetime"), "t") == [None, None]


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-01-31", "2024-02-29T05:06:07.25", None, "2024-01-31 05:06+02:00"],
        ["2024-01-31", "2024-02-30"],
        ["2024-01-31", "unknown"],
        ["2024-01-31", ""],
        ["20240131"],
        ["31.01.2024"],
        [None, None],
    ],
)
def test_texts_are_times_without_a_declaration_if_the_standard_library_reads_all(texts: list) -> None:
    column = pa.chunked_array([pa.array(texts, pa.string())])

    def read(text: str) -> datetime:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).replace(tzinfo=None)

    try:
        known = [text for text in texts if text is not None]
        expected = [None if text is None else read(text) for text in texts] if known and "-" in known[0] else None
    except ValueError:
        expected = None
    for each in (column, column.dictionary_encode()):
        found = iso_times(each)
        assert (None if found is None else found.to_pylist()) == expected

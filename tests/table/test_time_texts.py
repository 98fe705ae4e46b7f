"""Texts and numbers as times, compared with the standard library, and the patterns of JSON Schema."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.table.schema import NAT
from gpupipe.table.time_texts import MONTHS, json_pattern, of_ticks, pattern_of, reader_of
from gpupipe.units import epoch_us
from tests.examples import examples

MOMENTS = st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 31))
FORMATS = [
    "%d/%m/%Y", "%m/%d/%Y %I:%M:%S %p", "%Y%m%d", "%Y%m%d%H%M%S", "%d-%b-%Y", "%d %B %Y %H:%M:%S.%f", "%j/%Y",
    "%a %b %d %H:%M:%S %Y", "%Y-%m-%dT%H:%M:%SZ", "%Hh%M on %d.%m.%Y", "%Y", "%Y%m", "%A, %d. %b %Y", "%G-W%V-%u",
    "100%% %Y",
]  # fmt: skip


@pytest.mark.parametrize("time_format", FORMATS)
@examples(20)
@given(moment=MOMENTS)
def test_a_format_reads_what_strptime_reads(time_format: str, moment: datetime) -> None:
    year = f"{moment.year:04d}"  # strftime pads years on some platforms only
    text = moment.strftime(time_format.replace("%Y", year))
    pattern = pattern_of(time_format)
    assert pattern.read(text) == epoch_us(datetime.strptime(text, time_format))
    assert pattern.read(f"{text}!") is None


@pytest.mark.parametrize("offset", ["Z", "+0330", "-03:30", "+00:00"])
def test_offsets_are_converted_to_utc(offset: str) -> None:
    text, time_format = f"31.01.2024 05:06{offset}", "%d.%m.%Y %H:%M%z"
    assert reader_of(time_format)(text) == epoch_us(datetime.strptime(text, time_format))


@pytest.mark.parametrize(
    ("text", "time_format"),
    [
        ("2024111", "%Y%m%d"),  # strptime: November 1
        ("1112024 05:06", "%d%m%Y %H:%M"),
        ("30/02/2024", "%d/%m/%Y"),
        ("366/2023", "%j/%Y"),
        ("24:00", "%H:%M"),
        ("05:06:60", "%H:%M:%S"),
        ("٣/٦/٢٠٢٤", "%d/%m/%Y"),
        ("3 Mai 2024", "%d %b %Y"),  # names are English in every locale
        ("2024-06-03", "%d/%m/%Y"),
        ("s", "s"),
        ("1_000", "%Y"),
        ("20240603.5", "%Y%m%d"),
        ("", "%Y"),
    ],
)
def test_other_texts_are_refused(text: str, time_format: str) -> None:
    assert reader_of(time_format)(text) is None


@pytest.mark.parametrize(
    ("text", "time_format", "moment"),
    [
        (" 03/06/2024 ", "%d/%m/%Y", datetime(2024, 6, 3)),
        ("20240603.0", "%Y%m%d", datetime(2024, 6, 3)),  # an integer of pandas in a column with nulls
        ("3 MAY 2024", "%d %b %Y", datetime(2024, 5, 3)),
        ("3 June 2024", "%d %b %Y", datetime(2024, 6, 3)),
        ("31/12/68", "%d/%m/%y", datetime(2068, 12, 31)),
        ("01/01/69", "%d/%m/%y", datetime(1969, 1, 1)),
        ("1706677560", "s", datetime(2024, 1, 31, 5, 6)),
        ("1.5e3", "ms", datetime(1970, 1, 1, 0, 0, 1, 500_000)),
        ("366/2024", "%j/%Y", datetime(2024, 12, 31)),
        ("2024-1-5", "%Y-%m-%d", datetime(2024, 1, 5)),
        ("2024-01-05T06:07+01", "%Y-%m-%d", datetime(2024, 1, 5, 5, 7)),  # a format of ISO 8601 takes all of it
        ("1970-01-01", "%Y-%m-%d", datetime(1970, 1, 1)),
    ],
)
def test_texts_have_one_meaning(text: str, time_format: str, moment: datetime) -> None:
    assert reader_of(time_format)(text) == epoch_us(moment)


def test_numbers_that_int64_cannot_hold_are_missing() -> None:
    for value in (1e300, float("inf"), float("-inf"), float("nan"), 10**5000, 2**63, -(2**63)):
        assert of_ticks(value, "s") == NAT
    assert of_ticks(-1, "ns") == of_ticks(-999, "ns") == -1 and of_ticks(999, "ns") == 0


@pytest.mark.parametrize("time_format", [None, *FORMATS, "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%z"])
@examples(60)
@given(moment=MOMENTS, text=st.text("0123456789-:/. TZ+AbcJan", max_size=25), at=st.integers(0, 30))
def test_the_pattern_of_json_schema_takes_the_texts_that_are_read(
    time_format: str | None, moment: datetime, text: str, at: int
) -> None:
    pattern = json_pattern(time_format)
    if pattern is None:
        assert time_format == "%G-W%V-%u"
        return
    good = moment.strftime((time_format or "%Y-%m-%dT%H:%M:%SZ").replace("%Y", f"{moment.year:04d}").replace("%z", "Z"))
    for each in (good, f" {good}\n", text, good[:at] + text[:1] + good[at:], good[:at] + good[at + 1 :]):
        takes, read = re.search(pattern, each) is not None, reader_of(time_format)(each)
        is_short = (
            bool(time_format) and pattern_of(time_format or "").is_digits
        )  # such as 5 for %H%M: not in the pattern
        assert takes == (read is not None) or (is_short and not takes and each.strip() != good), each


@pytest.mark.parametrize("time_format", [None, "%d/%m/%Y", "%Y%m%d", "%B %d, %y", "%j/%Y", "%d.%b", "%m-%d-%H%M"])
def test_the_pattern_of_json_schema_has_the_calendar(time_format: str | None) -> None:
    found = re.compile(json_pattern(time_format) or "")
    read = reader_of(time_format)
    for year, month in product((1600, 1900, 1968, 1969, 2023, 2024), range(14)):
        for day in range(33):
            name = MONTHS[month % 12].title()
            text = (time_format or "%Y-%m-%d").replace("%Y", f"{year}").replace("%m", f"{month:02d}")
            text = (
                text.replace("%d", f"{day:02d}").replace("%B", name).replace("%b", name[:3]).replace("%H", f"{day:02d}")
            )
            text = text.replace("%y", f"{year % 100:02d}").replace("%j", f"{35 * (month - 1) + day:03d}")
            text = text.replace("%M", f"{5 * month:02d}")
            assert (found.search(text) is not None) == (read(text) is not None), text


def test_the_clock_of_digits_is_checked() -> None:
    assert reader_of("%Y%m%d%H%M%S")("20240131235959") == epoch_us(datetime(2024, 1, 31, 23, 59, 59))
    for clock in ((24, 0, 0), (23, 60, 0), (23, 59, 60)):
        with pytest.raises(ValueError):
            datetime(2024, 1, 31, *clock)
        assert reader_of("%Y%m%d%H%M%S")("20240131{:02d}{:02d}{:02d}".format(*clock)) is None

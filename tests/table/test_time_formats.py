"""Inference of time formats: only one reading is taken, and advice names the others."""

from __future__ import annotations

from datetime import datetime

import pytest

from gpupipe.table.time_formats import (
    FORMATS,
    common_formats,
    declare_texts,
    describe_readings,
    formats_of,
    time_formats,
)
from gpupipe.table.time_texts import reader_of
from gpupipe.units import epoch_us


@pytest.mark.parametrize("time_format", FORMATS[1:])
def test_each_format_is_found_and_other_readings_differ(time_format: str) -> None:
    moment = datetime(2009, 11, 5, 14, 7, 36)  # as %y, %d and %m, 5, 9 and 11 can be exchanged
    text = (
        moment.strftime(time_format) + ("+0100" if "%z" in time_format else "") + ("GMT" if "%Z" in time_format else "")
    )
    found = {each: reader_of(each)(text) for each in formats_of(text)}
    assert time_format in found
    assert reader_of(time_format)(text) == epoch_us(datetime.strptime(text, time_format))
    strict = {each: value for each, value in found.items() if each and not each.startswith("%Y-%m-%d")}
    assert len({*strict.values()}) == len(strict)


@pytest.mark.parametrize(
    ("texts", "formats"),
    [
        (["2024-01-31", "2024-01-31T05:06Z", " 2024-01-31 05 "], [""]),
        (["2024-01-31", "2024-1-5"], ["%Y-%m-%d"]),
        (["20240131"], []),  # digits are a number
        (["03/06/24"], ["%m/%d/%y", "%d/%m/%y", "%y/%m/%d"]),
        (["03/06/2024", "24/07/2024"], ["%d/%m/%Y"]),
        (["03/06/2024", "24/07/2024", "07/24/2024"], []),
        (["3 May 2024 2:05 PM"], ["%d %b %Y %I:%M %p"]),
        (["10/Oct/2000:13:55:36 -0700"], ["%d/%b/%Y:%H:%M:%S %z"]),
        (["Sun, 06 Nov 1994 08:49:37 GMT"], ["%a, %d %b %Y %H:%M:%S %Z"]),
    ],
)
def test_the_formats_that_fit_all_texts_are_found(texts: list[str], formats: list[str]) -> None:
    assert time_formats(texts) == formats
    found = None
    for text in reversed(texts):  # one after the other, as from chunks
        found = common_formats([text], found)
    assert {*(found or ())} >= {*formats}
    assert time_formats(texts[::-1]) == formats


def test_advice_names_every_reading() -> None:
    advice = declare_texts("day", ["03/06/2024"])
    assert "format: '%m/%d/%Y'" in advice and "could also be '%d/%m/%Y'" in advice
    assert describe_readings("03/06/2024") == (
        "'03/06/2024' is 6 March 2024 as '%m/%d/%Y' or 3 June 2024 as '%d/%m/%Y'"
    )
    assert declare_texts("day", ["20240131", "20240229"]).endswith("{day: {kind: datetime, format: '%Y%m%d'}}")
    assert declare_texts("day", ["2024-01-31"]).endswith("{day: datetime}")
    assert "correct values such as 'soon'" in declare_texts("day", ["24/07/2024"] * 9 + ["soon"])
    assert describe_readings("Ulm") == declare_texts("day", ["Ulm", "Bonn"]) == ""

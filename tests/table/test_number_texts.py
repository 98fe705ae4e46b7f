"""Numbers written for people, against values worked out by hand and Python's own formatting."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.table.number_texts import DecimalMark, NumberFormat, WrittenNumber, guess_format, is_band, read_number
from tests.examples import examples


@pytest.mark.parametrize(
    ("text", "value", "before", "after"),
    [
        ("$1,234.50", 1234.5, "$", ""),
        ("12.5%", 12.5, "", "%"),
        ("(5.20)", -5.2, "", ""),
        ("($1,234)", -1234, "$", ""),
        ("$(5)", -5, "$", ""),
        ("-$5", -5, "$", ""),
        ("$-5", -5, "$", ""),
        ("5.20-", -5.2, "", ""),
        ("\u22125", -5, "", ""),
        ("+7", 7, "", ""),
        ("1,248 CC", 1248, "", "CC"),
        ("23.4 kmpl", 23.4, "", "kmpl"),
        ("EUR 5", 5, "EUR", ""),
        ("Rs. 500", 500, "Rs.", ""),
        ("US$ 10", 10, "US$", ""),
        ("10\u00a0€", 10, "", "€"),
        ("1 234 567", 1234567, "", ""),
        ("1\u202f234", 1234, "", ""),
        ("1'234.5", 1234.5, "", ""),
        ("1_000", 1000, "", ""),
        ("1,00,000", 100000, "", ""),
        (".5", 0.5, "", ""),
        ("5.", 5, "", ""),
        ("1e-3 kg", 0.001, "", "kg"),
        ("9.81 m/s^2", 9.81, "", "m/s^2"),
        ("5 L/100km", 5, "", "L/100km"),
        ("10 fl oz", 10, "", "fl oz"),
        ('7"', 7, "", '"'),
        ("  12 % ", 12, "", "%"),
    ],
)
def test_a_number_is_read_with_its_units(text: str, value: float, before: str, after: str) -> None:
    assert read_number(text) == WrittenNumber(value, before, after)


@pytest.mark.parametrize(
    "text",
    [
        "", "-", "%", "$", "abc", "1,23", "1.234,50", "12,345,67", "1.2.3", "5 kg 3 g", "190Nm@ 2000rpm", "2024-01-02",
        "10:30", "12/5", "<1", "65+", "5-10", "--5", "(-5)", "-(5)", "6 ft 2 in", "NaN", "inf", "1 234,5", "1" * 65,
    ],
)  # fmt: skip
def test_a_text_with_anything_else_is_not_a_number(text: str) -> None:
    assert read_number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("€ 1.234,50", 1234.5), ("1,5 kg", 1.5), ("-1.234.567", -1234567), ("1 234,5", 1234.5), ("1.5", None)],
)
def test_a_decimal_comma(text: str, value: float | None) -> None:
    found = read_number(text, ",")
    assert (None if found is None else found.value) == value


@examples(200)
@given(
    st.floats(-1e9, 1e9).map(lambda x: round(x, 2)),
    st.sampled_from([",", "_", ""]),
    st.sampled_from(["{}", "{} km", "${}"]),
)
def test_what_python_formats_is_read_back(value: float, mark: str, form: str) -> None:
    found = read_number(form.format(f"{value:{mark}.2f}"))
    assert found is not None and found.value == value


@pytest.mark.parametrize("text", ["<1", ">20", ">= 5", "≤ 3", "65+", "5-10", "5 – 10", "1 to 5", "~5"])
def test_bands(text: str) -> None:
    assert is_band(text)


@pytest.mark.parametrize("text", ["5", "-5", "1,234.50", "a-b", "+5", "C++", "2024-01-31", "5 kg", "n/a"])
def test_what_is_not_a_band(text: str) -> None:
    assert not is_band(text)


def test_units_have_factors_and_others_are_missing() -> None:
    form = NumberFormat({"kg": 1.0, "g": 0.001, "%": 0.01})
    assert [form.parse(text) for text in ("2 kg", "500 g", "7", "50%")] == [2.0, 0.5, 7.0, 0.5]
    assert all(math.isnan(form.parse(text)) for text in ("3 lb", "$5", "<5", "much", ""))
    assert NumberFormat({"$": 1.0, "k": 1000.0}).parse("$5k") == 5000.0


@pytest.mark.parametrize(
    ("texts", "units", "decimal"),
    [
        (["$1,234.50", "$3.00", "-$7"], {"$": 1.0}, "."),
        (["1.5%", "2%", "7"], {"%": 1.0}, "."),
        (["(5.20)", "3.10"], {}, "."),
        (["1,000", "2,000", "5"], {}, "."),
        (["1,248 CC", "998 CC"], {"CC": 1.0}, "."),
        (["€ 1.234,50", "€ 3,10"], {"€": 1.0}, ","),
        (["5k", "1.2M", "300"], {"k": 1000.0, "M": 1000000.0}, "."),
        (["$5k", "$700"], {"$": 1.0, "k": 1000.0}, "."),
        ([*(f"{i}.5 kmpl" for i in range(40)), "17 km/kg"], {"kmpl": 1.0}, "."),
        ([*(f"{i} rpm" for i in range(40)), "unknown"], {"rpm": 1.0}, "."),
    ],
)
def test_a_format_is_guessed_from_texts(texts: list[str], units: dict[str, float], decimal: DecimalMark) -> None:
    assert guess_format(texts) == NumberFormat(units, decimal)


def test_bands_among_numbers_are_their_limits() -> None:
    assert guess_format(["<1", "5", "7"]) == NumberFormat(has_bands=True)
    assert guess_format(["2 mg", "3.5 mg", "<0.5 mg"]) == NumberFormat({"mg": 1.0}, has_bands=True)


@pytest.mark.parametrize(
    "texts",
    [
        [], ["1", "2.5"], ["A12", "A13"], ["Room 3", "Room 4"], ["5th", "3rd"], ["007 CC", "1 CC"], ["12A", "13B"],
        ["2024-01-01"], ["1.1.1"], ["10 mg", "5 g"], ["word"] * 3, ["<1", "5-10", "7"], ["10:30", "11:30"],
        ["<3", "007", "012"], ["12-34", "34-50"],
        [f"word {i}" for i in range(30)],
    ],
)  # fmt: skip
def test_plain_numbers_codes_and_words_have_no_format(texts: list[Any]) -> None:
    assert guess_format(texts) is None

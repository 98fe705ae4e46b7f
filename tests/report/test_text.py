from __future__ import annotations

import math

import pytest

from gpupipe.report import text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"), (math.nan, "–"), (0.0, "0"), (3, "3"), (1234567, "1,234,567"), (0.84231, "0.8423"),
        (-0.0031, "-0.0031"), (3.14159, "3.142"), (12.345, "12.35"), (1234.56, "1,234.6"), (3.1e-6, "3.10e-06"),
        (math.inf, "inf"), ("2014-02-01", "2014-02-01"), ("", "–"),
    ],
)  # fmt: skip
def test_numbers_have_about_four_places(value: object, shown: str) -> None:
    assert text.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0004, "0.4 ms"), (0.012, "12 ms"), (0.9996, "1.00 s"), (1.239, "1.24 s"), (59.996, "1 min 00 s"),
     (125.4, "2 min 05 s"), (11220, "3 h 07 min"), (None, "–")],
)  # fmt: skip
def test_times_have_the_unit_that_suits_them(value: float | None, shown: str) -> None:
    assert text.seconds(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**30, "1.0 GiB"), (2**52, "4096.0 TiB")]
)
def test_sizes_are_binary(value: int, shown: str) -> None:
    assert text.size(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(820.0, "820 rows/s"), (235_400.0, "235k rows/s"), (1.23e6, "1.2M rows/s"), (None, "–")]
)
def test_rates_are_short(value: float | None, shown: str) -> None:
    assert text.rate(value) == shown


def test_a_percentage_that_is_not_nothing_is_not_shown_as_nothing() -> None:
    assert [text.percent(value) for value in (0.0, 1e-6, 0.123, 1.0, None)] == [
        "0 %", "<0.1 %", "12.3 %", "100.0 %", "–",
    ]  # fmt: skip


def test_control_characters_become_escapes_and_letters_of_all_scripts_stay() -> None:
    assert text.printable("价格 é\x1b[31m\n\u202e") == "价格 é\\x1b[31m\\n\\u202e"
    assert text.printable("a\nb\x00", keep="\n") == "a\nb\\x00"

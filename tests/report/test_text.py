from __future__ import annotations

import math

import pytest

from gpupipe.report import text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"), (math.nan, "–"), (0.0, "0"), (3, "3"), (1234567, "1,234,567"), (0.84231, "0.8423"),
        (-0.0031, "-0.0031"), (3.14159, "3.142"), (12.345, "12.35"), (1234.56, "1,235"), (3.1e-6, "3.10e-06"),
        (2015.1, "2015"), (1983.0, "1983"), (9095.5, "9,096"), (-1234.5, "-1,234"), (math.inf, "inf"),
        ("2014-02-01", "2014-02-01"), ("", "–"),
    ],
)  # fmt: skip
def test_numbers_have_about_four_places(value: object, shown: str) -> None:
    assert text.number(value) == shown


def test_a_percentage_that_is_not_nothing_is_not_shown_as_nothing() -> None:
    assert [text.percent(value) for value in (0.0, 1e-6, 0.123, 1.0, None)] == [
        "0 %", "<0.1 %", "12.3 %", "100.0 %", "–",
    ]  # fmt: skip


def test_control_characters_become_escapes_and_letters_of_all_scripts_stay() -> None:
    assert text.printable("价格 é\x1b[31m\n\u202e") == "价格 é\\x1b[31m\\n\\u202e"
    assert text.printable("a\nb\x00", keep="\n") == "a\nb\\x00"

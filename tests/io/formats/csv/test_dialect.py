"""Header detection."""

from __future__ import annotations

import pytest

from gpupipe.io.formats.csv.dialect import is_header


@pytest.mark.parametrize(
    "rows",
    [
        [["age", "city"], ["31", "Ulm"], ["48", "Bonn"]],
        [["city", "mood"], ["Ulm", "good"], ["Bonn", "bad"], ["Ulm", "good"]],
        [["0", "1", "2"], ["5.1", "3.5", "1.4"], ["4.9", "3.0", "1.4"]],
        [["2019", "2020", "2021"], ["5.1", "3.5", "1.4"], ["4.9", "3.0", "1.4"]],
        [["", "x"], ["1", "2.5"], ["2", "3.5"]],
        [["age", "city"]],
        [["age", "city"], ["?", "Ulm"], ["48", "?"], ["NA", "Bonn"]],
        [["day", "who"], ["2024-05-31", "Ada"], ["2024-06-01", "Alan"]],
    ],
    ids=[
        "words over numbers",
        "words over words",
        "positions",
        "years",
        "an unnamed index",
        "no rows",
        "words over marks for missing values",
        "a word over dates",
    ],
)
def test_a_row_unlike_those_below_is_a_header(rows: list[list[str]]) -> None:
    assert is_header(rows)


@pytest.mark.parametrize(
    "rows",
    [
        [["39", " State-gov", "77516"], ["50", " Private", "83311"], ["38", " Private", "215646"]],
        [["5.1", "3.5", "setosa"], ["4.9", "3.0", "setosa"]],
        [["p", "x", "s"], ["e", "x", "s"], ["e", "b", "s"], ["p", "x", "y"]],
        [["0", "0", "1"], ["1", "0", "2"], ["0", "2", "1"]],
        [["?", "Ulm", "31"], ["4", "Bonn", "48"], ["7", "Kiel", "29"]],
        [["2024-05-30", "Ada"], ["2024-05-31", "Alan"], ["2024-06-01", "Grace"]],
        [["k-001", "Ada"], ["k-002", "Alan"], ["k-003", "Grace"]],
    ],
    ids=[
        "adult.data",
        "iris.data",
        "letters that come again",
        "digits that come again",
        "a mark for a missing value over numbers",
        "dates and names",
        "codes and names",
    ],
)
def test_a_row_like_those_below_is_data(rows: list[list[str]]) -> None:
    assert not is_header(rows)

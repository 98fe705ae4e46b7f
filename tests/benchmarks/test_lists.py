"""The benchmark of lists, on a small table."""

from __future__ import annotations

import json

import pytest

from benchmarks import lists


def test_the_three_matrices_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    lists.main(["--rows", "300", "--repeat", "1"])
    found = json.loads(capsys.readouterr().out)
    assert found["ratios"].keys() == {"arrow", "pandas"}

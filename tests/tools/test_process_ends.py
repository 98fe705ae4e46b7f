"""Tests of the campaign of ends of processes."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tools.process_ends import EndCounts, command_of, problem_of


@pytest.mark.parametrize(
    ("code", "sent", "output", "problem"),
    [
        (0, None, "", ""),
        (5, None, "Data error: the file is empty", ""),
        (-15, signal.SIGTERM, "", ""),
        (130, signal.SIGINT, "interrupted", ""),
        (2, signal.SIGINT, "ended before the signal", ""),
        (-6, signal.SIGTERM, "", "ended by SIGABRT"),
        (130, None, "interrupted", "exit code 130"),
        (143, signal.SIGINT, "", "exit code 143"),
        (1, None, "Internal error", "exit code 1"),
        (1, signal.SIGINT, "Fatal Python error: init_import_site: Failed to import the site module", ""),
        (0, None, "Fatal Python error: Aborted", "'Fatal Python error' in the output"),
    ],
)
def test_ends_are_evaluated(code: int, sent: int | None, output: str, problem: str) -> None:
    assert problem_of(code, sent, output) == problem


def test_counts_continue_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "ends.json"
    assert EndCounts.load(path) == EndCounts()
    counts = EndCounts(3, Counter({"init 0": 2, "check -15 after SIGTERM": 1}), ["case 1: init: hangs"])
    counts.save(path)
    assert EndCounts.load(path) == counts


def test_every_command_is_drawn(tmp_path: Path) -> None:
    tables = [tmp_path / "messy.csv"]
    drawn = [command_of(Random(seed), tables, tmp_path) for seed in range(40)]
    assert {command[0] for command in drawn} == {"init", "check", "predict"}
    assert drawn == [command_of(Random(seed), tables, tmp_path) for seed in range(40)]

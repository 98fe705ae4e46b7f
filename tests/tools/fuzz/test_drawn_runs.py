"""Runs drawn over splits, tasks, rare classes and weights: each succeeds, or is refused before training."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tools.fuzz.drawn_runs import draw_run

QUICK = (2, 3, 8, 13, 19, 23, 31, 32, 87, 89, 123, 137, 434)
"""Seeds with a class without a test row, folds of one class or one group, weights of 0, calibration on few rows."""
CASES = 500


@pytest.mark.parametrize("seed", QUICK)
def test_a_drawn_run_succeeds_or_is_refused_before_training(seed: int, tmp_path: Path) -> None:
    assert draw_run(seed).outcome(tmp_path)[1] == ""


@pytest.mark.nightly
def test_drawn_runs_succeed_or_are_refused_before_training(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    problems: dict[int, str] = {}
    for seed in range(CASES):
        outcome, problem = draw_run(seed).outcome(tmp_path)
        outcomes[outcome] += 1
        if problem:
            problems[seed] = problem
    assert not problems
    assert outcomes["success"] > CASES // 2


def test_equal_seeds_draw_equal_runs_and_the_tables_have_rare_parts() -> None:
    first, again = draw_run(7), draw_run(7)
    assert first.rows.equals(again.rows) and first.settings == again.settings
    drawn = [draw_run(seed) for seed in range(60)]
    kinds = {kind for run in drawn for kind in run.settings["split"]}
    assert kinds >= {"time", "group", "column", "cv", "gap", "cutoff", "purge", "repeats", "test_size"}
    rarest = [run.rows["y"].value_counts().min() for run in drawn if "y" in run.rows]
    assert sum(count <= 3 for count in rarest) > 10
    assert any((run.rows["w"] == 0).any() and "weight" in run.settings for run in drawn)

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.device.results import StepResult, StepResults, markdown, summary
from gpupipe.errors import DataError

ORDER = ["first", "second", "third"]
DONE = StepResult("second", "The second step", "done", 12.4, "", ["1 GB/s"], {"rate": 1.0}, "2026-01-02T03:04:05+00:00")
BROKEN = StepResult("first", "The first", "broken", 1.0, "exit code 1: Traceback\nValueError: a | b", ended="then")


def test_both_files_are_written_after_each_step(tmp_path: Path) -> None:
    results = StepResults(tmp_path / "made" / "here", ORDER)
    results.add(DONE)
    (row,) = json.loads((tmp_path / "made/here/results.json").read_text())
    assert (row["name"], row["status"], row["figures"], row["lines"]) == ("second", "done", {"rate": 1.0}, ["1 GB/s"])
    assert "The second step" in (tmp_path / "made/here/results.md").read_text()
    assert sorted(path.name for path in (tmp_path / "made/here").iterdir()) == ["results.json", "results.md"]


def test_the_results_of_an_earlier_call_are_kept_until_their_step_runs_again(tmp_path: Path) -> None:
    StepResults(tmp_path, ORDER).add(DONE)
    again = StepResults(tmp_path, ORDER)
    again.add(BROKEN)
    assert [row["name"] for row in json.loads((tmp_path / "results.json").read_text())] == ["first", "second"]
    again.add(StepResult("first", "The first", "done"))
    assert [row["status"] for row in json.loads((tmp_path / "results.json").read_text())] == ["done", "done"]


def test_a_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"accuracy": 1}')
    with pytest.raises(DataError, match="not a results file"):
        StepResults(tmp_path, ORDER)
    assert (tmp_path / "results.json").read_text() == '{"accuracy": 1}'


def test_non_finite_numbers_are_null(tmp_path: Path) -> None:
    StepResults(tmp_path, ORDER).add(StepResult("first", "The first", "done", figures={"auc": float("nan")}))
    assert json.loads((tmp_path / "results.json").read_text())[0]["figures"] == {"auc": None}


def test_the_table_has_a_line_for_each_step_and_the_last_line_of_an_error() -> None:
    assert markdown([BROKEN, DONE]).splitlines() == [
        "# Results on a GPU",
        "",
        "| step | | time | ended (UTC) | |",
        "| --- | --- | --- | --- | --- |",
        "| first | BROKEN | 1 s | then | ValueError: a \\| b |",
        "| second | ok | 12 s | 2026-01-02T03:04:05+00:00 |  |",
        "",
        "## The first",
        "",
        "```",
        "exit code 1: Traceback",
        "ValueError: a | b",
        "```",
        "",
        "## The second step",
        "",
        "```",
        "1 GB/s",
        "```",
    ]


def test_the_summary_counts() -> None:
    assert summary([BROKEN, DONE, DONE]) == {"done": 2, "broken": 1}

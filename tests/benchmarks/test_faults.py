"""The verdicts of the fault benchmark. The outcomes are made by hand: real ones take minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.faults.__main__ import main, text_of
from benchmarks.faults.runs import RIGHT, WRONG, FaultOutcome, ReferenceRun, problems_of_error
from gpupipe.pipeline.records.rundir import write_run_file


@pytest.fixture
def reference(tmp_path: Path) -> ReferenceRun:
    """A run of three files."""
    run = tmp_path / "undisturbed"
    (run / "model").mkdir(parents=True)
    for name in ("metrics.json", "log.jsonl", "model/manifest.json"):
        (run / name).write_text("{}")
    write_run_file(run)
    return ReferenceRun(tmp_path / "config.yaml", run, 1.0)


def test_the_old_result_the_new_one_and_none_are_distinguished_from_a_mixture(
    reference: ReferenceRun, tmp_path: Path
) -> None:
    final = tmp_path / "run"
    assert reference.left(final, "") == ("nothing", [])
    assert reference.left(final, "an earlier run") == ("nothing", ["the earlier run is missing"])
    old = reference.place_old(final)
    assert reference.left(final, old) == ("old", [])
    (final / "log.jsonl").write_text("of another run")
    assert reference.left(final, old) == ("new", [])
    (final / "model" / "manifest.json").unlink()
    assert reference.left(final, old)[1] == [
        "the directory under the final name is neither the old run nor the new one"
    ]


def test_a_traceback_another_exit_code_and_a_long_message_are_problems() -> None:
    assert problems_of_error(3, "Does not fit: the disk is full", [3]) == []
    assert problems_of_error(1, "Traceback\n" * 20, [3])[1:] == ["a traceback", "an error of more than a screen"]


def test_figures_are_shown_and_no_work_is_not_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        FaultOutcome("killed", RIGHT, -9, "old", 2),
        FaultOutcome("killed", WRONG, -9, "new", 0, ("other metrics",)),
    ]
    text = text_of({"kills": runs})
    assert text.splitlines() == [
        "kills: 1 of 2 right; left 1 old, 1 new; exit codes 2 × -9; 2 stages resumed", "  killed: other metrics",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0 and "--kills" in capsys.readouterr().out

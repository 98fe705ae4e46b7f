"""Worker output: kept out of the run's output, and shown when a worker is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupipe.config.cluster import ClusterSettings
from gpupipe.dask.connect import connect
from gpupipe.dask.worker_output import FOLDER, LINES_SHOWN, last_output, redirect_output
from gpupipe.errors import ClusterError
from tests.dask import chores


def test_what_a_worker_prints_is_shown_with_its_end_and_nowhere_else(capfd: pytest.CaptureFixture[str]) -> None:
    settings = ClusterSettings(scheduler="local", workers=1, threads=1, deadline=30, retries=0)
    with connect(settings, "cpu") as workers:
        doomed = workers.submit(chores.crying_out, label="reading partition 1 of 2")
        with pytest.raises(ClusterError, match="in turn died") as caught:
            workers.gather([doomed])
        said = ["  it printed: a line on stdout", "  it printed: terminate called after throwing an instance of"]
        assert all(line in str(caught.value) for line in said)
        (note,) = workers.take_warnings()
        assert all(line in note for line in said)
    assert capfd.readouterr() == ("", "")


def test_few_lines_are_shown_of_a_long_log(tmp_path: Path) -> None:
    (tmp_path / "127.0.0.1_123.log").write_text("".join(f"line {i}\n\n" for i in range(10_000)) + "\xff end")
    said = last_output(tmp_path, "tcp://127.0.0.1:123").splitlines()
    assert len(said) == 1 + LINES_SHOWN
    assert said[0] == "" and said[-1].endswith("end")


def test_nothing_is_shown_of_silent_or_foreign_workers(tmp_path: Path) -> None:
    assert last_output(tmp_path, "tcp://127.0.0.1:123") == ""
    assert last_output(None, "tcp://127.0.0.1:123") == ""


def test_foreign_workers_keep_their_output(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    redirect_output("tcp://127.0.0.1:123")
    os.write(1, b"mine")
    assert capfd.readouterr().out == "mine"

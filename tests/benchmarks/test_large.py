"""The benchmark of large tables, on a small one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import large
from gpupipe.children import python_command


def test_all_implementations_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    names = ["gpupipe", large.WITHIN, large.PREDICT, *large.SCRIPTS]
    options = ["--rows", "20000", "--format", "csv", "--folder", str(tmp_path), "--names", *names]
    monkeypatch.setattr("sys.argv", ["large", *options])
    large.main()
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{")]
    assert [one["name"] for one in found] == names and not [one["error"] for one in found if "error" in one]
    scores = [one["roc_auc"] for one in found if one["name"] != large.PREDICT]
    assert max(scores) - min(scores) < 0.03 and min(scores) > 0.8


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"exit code 2: (.|\n)*no-such-option"):
        large.measure(python_command("-m", "gpupipe", "--no-such-option"), tmp_path / "log.txt")

"""Errors of child processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe.bench.process import run_child, run_peer
from gpupipe.errors import ConfigError, DataError


def test_a_failing_peer_shows_the_end_of_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # set by the command line; peers import from their own folder
    script = tmp_path / "peer.py"
    script.write_text("import sys, helper\nfor i in range(100): print('line', i, file=sys.stderr)\nhelper.fail()\n")
    (tmp_path / "helper.py").write_text("def fail(): raise OSError('no such disk')")
    with pytest.raises(ConfigError, match="no such disk") as caught:
        run_peer(script, ["--data", "x"], tmp_path / "out.json")
    assert "exit code 1" in str(caught.value)
    assert len(str(caught.value).splitlines()) < 20


@pytest.mark.parametrize("code", ["pass", "import sys; open(sys.argv[-1], 'w').write('{')"])
def test_a_peer_that_leaves_no_json_is_an_error(tmp_path: Path, code: str) -> None:
    script = tmp_path / "peer.py"
    script.write_text(code)
    with pytest.raises(ConfigError, match="wrote no valid JSON"):
        run_peer(script, [], tmp_path / "out.json")


def test_an_error_of_the_worker_keeps_its_class(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("source: {path: nowhere.csv, target: y}\n")
    with pytest.raises(DataError, match=r"nowhere\.csv"):
        run_child(["stages", str(config)], tmp_path / "out.json")

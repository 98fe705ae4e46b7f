"""Code named in a configuration: `check` and `plan` report that they ran it, and `--no-code` refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe.cli import main

HOOK = """\
from pathlib import Path

Path(__file__).with_name("imported").touch()


def same(frame):
    return frame
"""
KERNEL = 'import gpupipe\n\n\n@gpupipe.kernel(out="float32", nulls="propagate")\ndef half(a):\n    return a / 2.0\n'
CONFIG = "source: {path: t.csv, target: y, prepare: 'hook.py:same'}\nmodels: [gaussian_nb]\n"
MORE = "features: [{kernel: {use: 'kernel.py:half', inputs: [a]}}]\nmodels: [{estimator: {use: 'hook.py:same'}}]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("\n".join(["a,y", *(f"{i},{i % 2}" for i in range(60))]))
    Path("hook.py").write_text(HOOK)
    Path("kernel.py").write_text(KERNEL)
    Path("hook.yaml").write_text(CONFIG)
    Path("all.yaml").write_text(CONFIG.splitlines(keepends=True)[0] + MORE)
    return tmp_path


@pytest.mark.parametrize("command", ["check", "plan"])
def test_code_that_ran_is_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "hook.yaml"]) == 0
    assert "ran code of the configuration: hook.py:same" in capsys.readouterr().out
    assert Path("imported").exists()


@pytest.mark.parametrize("command", ["check", "plan"])
def test_code_is_not_run_on_request(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "all.yaml", "--no-code"]) == 2
    said = capsys.readouterr().err
    for setting in (
        "source.prepare: hook.py:same",
        "features[0].kernel.use: kernel.py:half",
        "models[0].estimator.use: hook.py:same",
    ):
        assert setting in said
    assert main(["check", "all.yaml", "--no-data", "--no-code"]) == 0
    assert not Path("imported").exists()
    assert main([command, "hook.yaml", "--no-code", "--set", "source.prepare=null"]) == 0

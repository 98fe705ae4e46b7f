"""``gpupipe run`` with networks: interrupted and resumed, several at once, and trained by several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs("torch")
ROOT = Path(__file__).parents[2]
EPOCHS = 24
SMALL = f"""\
source: {{generate: churn, rows: 2000, target: Churn, positive: "Yes", drop: [customerID]}}
models: [mlp: {{width: 16, depth: 1, batch_size: 64, epochs: {EPOCHS}, patience: null}}]
report: {{enabled: false}}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a configuration whose network is small, and takes a second or two."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def _start(*command: object, cwd: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "kernels")])}
    line = [sys.executable, "-P", "-m", *map(str, command)]
    return subprocess.Popen(line, env=environment, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _finish(process: subprocess.Popen[str]) -> str:
    """Return what it said."""
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def _until(condition: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    """Wait for a condition while the process runs."""
    deadline = time.monotonic() + 120
    while not (found := condition()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return found


def _metrics(run: Path) -> bytes:
    return (run / "metrics.json").read_bytes()


def _notes(run: Path) -> str:
    return (run / "timeline.json").read_text()


def test_a_run_that_is_interrupted_and_killed_resumes_to_the_same_metrics(small: Path, tmp_path: Path) -> None:
    free = tmp_path / "free"
    _finish(_start("gpupipe", "run", small, "--output", free / "one", cwd=tmp_path))

    hurt = tmp_path / "hurt"
    kept = hurt / ".checkpoints"
    states = lambda: list(kept.glob("*.pt"))  # noqa: E731
    command = ("gpupipe", "run", small, "--output", hurt / "run")
    with _start(*command, cwd=tmp_path) as process:
        (state,) = _until(states, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    old = state.stat().st_mtime_ns
    with _start(*command, "--resume", cwd=tmp_path) as process:
        _until(lambda: state.stat().st_mtime_ns != old, process)
        process.kill()
    assert not (hurt / "run").exists() and states() == [state]

    _finish(_start(*command, "--resume", cwd=tmp_path))
    assert _metrics(hurt / "run") == _metrics(free / "one")
    assert "resumed after epoch " in _notes(hurt / "run")
    assert f"resumed after epoch {EPOCHS}" not in _notes(hurt / "run")
    assert [path.name for path in hurt.iterdir()] == ["run"]  # the killed run left no files


@pytest.mark.nightly
def test_two_processes_give_the_same_by_nproc_and_by_torchrun(
    small: Path, tmp_path: Path, hostile_folder: Path
) -> None:
    few = ("--set", "models=[tabm: {width: 16, epochs: 3}]")
    shared = _start("gpupipe", "run", small, *few, "--nproc", 2, "--output", tmp_path / "nproc", cwd=hostile_folder)
    launch = ("torch.distributed.run", "--nproc-per-node", 2, "-m", "gpupipe", "run", small, *few)
    launched = _start(*launch, "--output", tmp_path / "torchrun", cwd=tmp_path)
    said = _finish(shared), _finish(launched)
    assert said[1].count("Leaderboard") == said[0].count("Leaderboard")  # one of the two is the run
    assert _metrics(tmp_path / "nproc") == _metrics(tmp_path / "torchrun")
    assert all("shared by 2 processes" in _notes(tmp_path / name) for name in ("nproc", "torchrun"))
    model = json.loads(_metrics(tmp_path / "nproc"))["models"]
    assert all(metrics["roc_auc"] > 0.6 for metrics in model.values())


@pytest.mark.parametrize(
    ("setting", "code"),
    [("models=[mlp: {width: 0}]", 2), ("source.target=Chrun", 5)],
)
def test_exit_codes_are_the_same_with_nproc(small: Path, tmp_path: Path, setting: str, code: int) -> None:
    into = ("--output", tmp_path / "out", "--quiet")
    process = _start("gpupipe", "run", small, "--set", setting, "--nproc", 2, *into, cwd=tmp_path)
    _, said = process.communicate(timeout=300)
    assert process.returncode == code, said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


@pytest.mark.nightly  # by day --nproc ends so
def test_torchrun_ends_when_the_run_fails(small: Path, tmp_path: Path) -> None:
    launch = ("torch.distributed.run", "--nproc-per-node", 2, "-m", "gpupipe", "run", small, "--quiet")
    process = _start(*launch, "--output", tmp_path / "out", "--set", "source.target=Chrun", cwd=tmp_path)
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0 and "did you mean 'Churn'?" in said

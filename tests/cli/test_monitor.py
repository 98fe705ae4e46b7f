"""The full-screen view of ``gpupipe run --monitor`` in a real terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

CONFIG = """\
source: {generate: churn, rows: 8000, target: Churn, positive: "Yes", drop: [customerID]}
models:
  - xgboost: {n_estimators: 200, early_stopping_rounds: 200}
report: {enabled: false}
evaluate: {importance: false}
monitor: {period: 0.1}
"""
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


def command(folder: Path, *options: str) -> list[str]:
    (folder / "config.yaml").write_text(CONFIG)
    output = str(folder / "run")
    return [sys.executable, "-m", "gpupipe", "run", str(folder / "config.yaml"), "--output", output, *options]


def in_terminal(folder: Path, key: bytes = b"", at: str = "") -> tuple[str, int, bool]:
    """Return the output of a run in a terminal of 100 x 30, its exit code, and whether the settings are restored.

    `key` is pressed when the output contains `at`.
    """
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = termios.tcgetattr(side)
    environment = {**os.environ, "TERM": "xterm-256color", "GPUPIPE_THREADS": "2", "PYTHONUTF8": "1"}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        environment.pop(name, None)
    child = subprocess.Popen(
        command(folder, "--monitor"), stdin=side, stdout=side, stderr=side, env=environment, start_new_session=True
    )
    text = b""
    has_ended = False
    while select.select([main], [], [], 0 if has_ended else 0.05)[0] or not has_ended:
        has_ended = child.poll() is not None  # what it wrote before is read in the next turns
        if select.select([main], [], [], 0)[0]:
            text += os.read(main, 65536)
        if key and at in text.decode(errors="replace"):
            os.write(main, key)
            key = b""
    is_restored = termios.tcgetattr(side) == before
    os.close(main)
    os.close(side)
    return text.decode(), child.wait(), is_restored


def test_the_view_shows_charts_and_progress_and_leaves_the_result_on_the_normal_screen(tmp_path: Path) -> None:
    text, code, is_restored = in_terminal(tmp_path)
    assert code == 0 and is_restored
    assert text.count(ENTER) == text.count(LEAVE) == 1
    view, _, after = text.partition(LEAVE)
    view, after = SEQUENCE.sub("", view.partition(ENTER)[2]), SEQUENCE.sub("", after)
    assert re.search(r"CPU +\d+ % of \d+ %", view) and re.search(r"memory +[\d.]+ [MG]iB of", view)
    assert "█" in view and re.search(r"round \d+ of up to 200", view)
    lines = after.splitlines()
    for stage in ("read", "train xgboost", "export"):
        assert sum(line.startswith(f"✓ {stage} ") for line in lines) == 1
    assert any(re.match(r"★ +xgboost", line) for line in lines)
    assert lines[-1].endswith("run") and "of up to" not in after


def test_q_stops_the_run_at_its_next_safe_point_and_restores_the_terminal(tmp_path: Path) -> None:
    text, code, is_restored = in_terminal(tmp_path, b"q", "round ")
    assert code == 130 and is_restored
    after = SEQUENCE.sub("", text.partition(LEAVE)[2])
    assert "✓ read" in after and "stopping after train xgboost" in after and "✗ train xgboost" in after
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("options", [["--monitor"], ["--monitor", "--quiet"]])
def test_without_a_terminal_the_view_is_refused(tmp_path: Path, options: list[str]) -> None:
    done: Any = subprocess.run(command(tmp_path, *options), capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--monitor" in done.stderr
    assert not (tmp_path / "run").exists()

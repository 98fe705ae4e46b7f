"""Fits and histories on the device double, in a new process: Numba chooses the simulator on import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = [Path(__file__).with_name(name) for name in ("device_checks.py", "history_checks.py")]


def run_checks(marks: str) -> None:
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        marks,
        *map(str, CHECKS),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_a_fit_on_the_device_matches_the_host() -> None:
    run_checks("not data")


@pytest.mark.nightly
@pytest.mark.data
def test_it_is_on_public_tables(data_dir: Path) -> None:
    run_checks("data")

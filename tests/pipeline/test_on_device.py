"""Metrics and whole runs on the device double, in a new process: Numba chooses the simulator on import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKS = [str(folder / "device_checks.py") for folder in (HERE.parent / "metrics", HERE)]
WITHOUT_RAPIDS = [str(HERE / "without_rapids_checks.py")]  # in a process that cannot import cuDF, cuML and RMM


@pytest.mark.parametrize(
    "checks",
    [
        pytest.param(CHECKS, id="with RAPIDS"),
        pytest.param(WITHOUT_RAPIDS, id="without RAPIDS", marks=pytest.mark.needs("torch")),
    ],
)
def test_a_run_on_the_device_matches_the_host(checks: list[str]) -> None:
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *checks]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

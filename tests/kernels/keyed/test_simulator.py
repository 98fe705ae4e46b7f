"""Device engine in Numba's simulator; the checks run in one separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.keyed.simulator_checks import CHECKS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    """Return the failure of each check, ``""`` for success."""
    path = os.pathsep.join(map(str, (ROOT, ROOT / "kernels")))
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": path}
    command = [sys.executable, "-m", "tests.kernels.keyed.simulator_checks"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {line["check"]: line["failure"] for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("check", CHECKS)
def test_in_the_simulator(failures: dict[str, str], check: str) -> None:
    assert not failures[check], failures[check]

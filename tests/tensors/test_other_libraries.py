"""Hand-overs to JAX and TensorFlow, each in a separate process: their threads would break later forks of this one."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.parametrize("library", ["jax", "tensorflow"])
def test_a_matrix_is_handed_to_it(library: str) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TF_CPP_MIN_LOG_LEVEL": "2"}
    checks = Path(__file__).with_name(f"{library}_checks.py")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(checks)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

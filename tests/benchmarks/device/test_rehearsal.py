"""The rehearsal of the GPU tests, which finds misspelt names before they fail on a GPU machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GPU_TESTS = Path(__file__).parents[2] / "gpu"


def test_gpu_tests_are_rehearsed_on_the_simulated_device() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [
        sys.executable, "-m", "pytest", "-p", "tests.gpu.rehearsal", "-p", "no:cacheprovider", "-q", "-n", "0",
        str(GPU_TESTS / "test_metrics.py"), str(GPU_TESTS / "test_kernels.py"),
        str(GPU_TESTS / "test_reading.py"), "-k", "test_metrics or test_kernels or several_files",
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout.splitlines()[-1]
    assert "cannot be rehearsed: needs Numba on a device" in done.stdout

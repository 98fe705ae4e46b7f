"""Device interpreter in Numba's simulator, and on a GPU if there is one.

Numba selects the simulator at import, so `device_checks` runs in a separate process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpupipe.backends.probe import probe_gpu
from gpupipe_kernels.interpreters.cuda.opcodes import DeviceOpcode, device_op
from gpupipe_kernels.program.opcodes import Opcode
from gpupipe_kernels.program.program import BLOCKS_READ

CHECKS = Path(__file__).with_name("device_checks.py")


def run_checks(simulated: bool) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": str(int(simulated)), "PYTHONPATH": path}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(CHECKS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_every_instruction_has_an_opcode() -> None:
    assert {device_op(op, block) for op in Opcode for block in BLOCKS_READ.get(op, {-1})} == set(DeviceOpcode)


def test_it_is_right_in_the_simulator() -> None:
    run_checks(simulated=True)


@pytest.mark.gpu
def test_it_is_right_on_the_gpu() -> None:
    gpu = probe_gpu()
    if not gpu.usable:
        pytest.skip(f"no GPU: {gpu.reason}")
    run_checks(simulated=False)

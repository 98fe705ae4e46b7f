"""Choice of the host engine by the amount of work, the threads and the setting, independent of earlier runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpupipe_kernels.engines import COSTS, KernelFamily, choose_engine
from gpupipe_kernels.program.opcodes import Opcode
from gpupipe_kernels.program.program import Program
from tests.kernels.programs import I8, Writer

NEVER = 10**18


def program(n_columns: int = 10) -> Program:
    writer = Writer()
    for i in range(n_columns):
        writer.put(Opcode.EQUAL, i, (I8, 0), arg=i)
    return writer.program()


@pytest.mark.parametrize("family", COSTS)
def test_compiled_loops_run_from_where_they_save_more_than_compiling_them_takes(family: KernelFamily) -> None:
    worth = round(COSTS[family].compile_seconds / COSTS[family].saved_ns * 1e9)
    assert [choose_engine(family, size) for size in (0, worth - 10, worth + 10)] == ["numpy", "numpy", "numba"]


def test_threads_count_where_numpy_uses_them_too() -> None:
    for family, costs in COSTS.items():
        worth = round(costs.compile_seconds / costs.saved_ns * 1e9) + 10
        assert choose_engine(family, worth, n_threads=2) == ("numpy" if costs.numpy_is_threaded else "numba")


@pytest.mark.parametrize("family", COSTS)
def test_a_setting_decides_and_a_compiler_that_is_switched_off_decides_before_it(family: KernelFamily) -> None:
    assert choose_engine(family, 0, setting="numba") == "numba"
    assert choose_engine(family, NEVER, setting="numpy") == "numpy"
    assert choose_engine(family, NEVER, setting="numba", can_compile=False) == "numpy"


def test_a_small_run_imports_no_compiler() -> None:
    code = (
        "import sys, numpy as np\n"
        "from gpupipe.backends.cpu.backend import CpuBackend\n"
        "from tests.kernels.test_engines import program\n"
        "backend, out = CpuBackend(), np.empty((5, 10), np.float32, order='F')\n"
        "backend.run_program(program(), {'int8': np.zeros((1, 5), np.int8)}, out)\n"
        "backend.reductions(10**6)\n"
        "print(backend.last_interpreter, sorted(m for m in ('numba', 'llvmlite') if m in sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "numpy []", done.stderr

"""Which interpreter runs: Numba's only where it is at hand, or saves more than it costs to get it."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from gpupipe_kernels import code_cache
from gpupipe_kernels.interpreters import choice
from gpupipe_kernels.program.opcodes import Opcode
from gpupipe_kernels.program.program import Program
from tests.kernels.programs import F32, I8, Writer

NEVER = 10**18


def program(n_columns: int = 10) -> Program:
    writer = Writer()
    for i in range(n_columns):
        writer.put(Opcode.EQUAL, i, (I8, 0), arg=i)
    return writer.program()


def rows_worth(seconds: float) -> int:
    return int(seconds / saved_seconds(program(), 1, 1))


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As in a process that has not loaded the compiled interpreter, with nothing on disk."""
    monkeypatch.delitem(sys.modules, choice.NAME, raising=False)
    monkeypatch.setattr(code_cache, "is_kept", lambda name: False)
    return monkeypatch


def test_a_fresh_process_waits_for_the_compiler_only_where_that_pays(fresh: pytest.MonkeyPatch) -> None:
    assert choose_interpreter(program(), rows_worth(COMPILE_SECONDS) - 10, 1) == "numpy"
    assert choose_interpreter(program(), rows_worth(COMPILE_SECONDS) + 10, 1) == "numba"


def test_code_on_disk_is_worth_less_rows(fresh: pytest.MonkeyPatch) -> None:
    fresh.setattr(code_cache, "is_kept", lambda name: name == "gpupipe_kernels.interpreters.numba.interpreter")
    assert choose_interpreter(program(), rows_worth(LOAD_SECONDS) - 10, 1) == "numpy"
    assert choose_interpreter(program(), rows_worth(LOAD_SECONDS) + 10, 1) == "numba"


def test_a_small_run_does_not_even_look_at_the_disk(fresh: pytest.MonkeyPatch) -> None:
    fresh.setattr(code_cache, "is_kept", lambda name: pytest.fail("looked"))
    assert choose_interpreter(program(), 1000, 1) == "numpy"


@pytest.mark.parametrize(("is_compiled", "expected"), [(True, "numba"), (False, "numpy")])
def test_what_is_compiled_in_this_process_runs_any_input(
    fresh: pytest.MonkeyPatch, is_compiled: bool, expected: str
) -> None:
    fresh.setitem(sys.modules, choice.NAME, SimpleNamespace(is_compiled=lambda: is_compiled))
    assert choose_interpreter(program(), 1, 1) == expected


def test_users_kernels_and_a_switched_off_compiler_leave_numpy(fresh: pytest.MonkeyPatch) -> None:
    with_call = Program(program().instructions, program().params, program().luts, 10, (SimpleNamespace(),))
    assert choose_interpreter(with_call, NEVER, 1) == "numpy"
    fresh.setenv("NUMBA_DISABLE_JIT", "1")
    assert choose_interpreter(program(), NEVER, 1) == "numpy"


def test_it_counts_instructions_by_what_they_cost_and_threads() -> None:
    writer = Writer()
    for i in range(4):
        writer.put(Opcode.LOAD, 0, (F32, 0), params=(0.0,))
        if i < 3:
            writer.put(Opcode.STORE, 0, arg=i)
    few = writer.program()
    writer.put(Opcode.BEARING, 0, arg=0, params=(1.0, 0.0))
    assert saved_seconds(few, 10**9, 1) == pytest.approx(0.7)
    assert saved_seconds(writer.program(), 10**9, 4) == pytest.approx((0.7 + 100) / 4)


def test_a_first_small_run_imports_no_compiler() -> None:
    code = (
        "import sys, numpy as np\n"
        "from gpupipe.backends.cpu.backend import CpuBackend\n"
        "from tests.kernels.test_choice import program\n"
        "backend, out = CpuBackend(), np.empty((5, 10), np.float32, order='F')\n"
        "backend.run_program(program(), {'int8': np.zeros((1, 5), np.int8)}, out)\n"
        "print(backend.last_interpreter, sorted(m for m in ('numba', 'llvmlite') if m in sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "numpy []", done.stderr

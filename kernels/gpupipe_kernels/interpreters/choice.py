"""Which interpreter runs a program on the host. Asking loads no compiler.

NumPy's starts at once; Numba's has to be compiled, or at least read from disk, before it computes any row. So Numba's
runs where it is at hand, or where it saves more than that takes.
"""

from __future__ import annotations

import os
import sys
from typing import Literal

import numpy as np

from gpupipe_kernels import code_cache
from gpupipe_kernels.program.opcodes import Field, Opcode
from gpupipe_kernels.program.program import Program

Interpreter = Literal["numpy", "numba"]

NAME = "gpupipe_kernels.interpreters.numba.interpreter"

# Seconds until the Numba interpreter computes, in fresh processes: it is imported and read from disk, or compiled.
LOAD_SECONDS = 0.45
COMPILE_SECONDS = 8.0

# Nanoseconds of processor time that it saves of a row and an instruction: both interpreters ran columns of one kind
# over a million rows, on one thread of an EPYC 9004.
SAVED_NS = 0.1
SAVED_NS_OF = {
    Opcode.LOG1P: 2.0, Opcode.SINE: 15.0, Opcode.YEO_JOHNSON: 11.0, Opcode.HAVERSINE: 50.0, Opcode.BEARING: 100.0,
    Opcode.INDEX_BIN: 14.0,
    Opcode.PART: 8.0, Opcode.INDEX_PART: 2.5, Opcode.ELAPSED: 2.0, Opcode.BETWEEN: 3.5,
}  # fmt: skip


def choose_interpreter(program: Program, n_rows: int, n_threads: int) -> Interpreter:
    """Return which interpreter to run `program` with over `n_rows` rows.

    Parameters
    ----------
    program : Program
        Users' kernels are called by the NumPy interpreter.
    n_rows, n_threads : int
    """
    if program.calls or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return "numpy"
    loaded = sys.modules.get(NAME)
    if loaded is not None and loaded.is_compiled():
        return "numba"
    saved = saved_seconds(program, n_rows, n_threads)
    if saved <= LOAD_SECONDS:
        return "numpy"
    return "numba" if saved > COMPILE_SECONDS or code_cache.is_kept(NAME) else "numpy"


def saved_seconds(program: Program, n_rows: int, n_threads: int) -> float:
    """Return by how many seconds the Numba interpreter is faster, once it is at hand."""
    ops, counts = np.unique(program.instructions[:, Field.OP], return_counts=True)
    ns = sum(
        SAVED_NS_OF.get(Opcode(op), SAVED_NS) * int(n) for op, n in zip(ops.tolist(), counts.tolist(), strict=True)
    )
    return ns * 1e-9 * n_rows / n_threads

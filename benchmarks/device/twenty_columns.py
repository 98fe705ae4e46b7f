"""Program of twenty columns, as in typical customer tables, for measurements of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpupipe_kernels.program.opcodes import BLOCKS, PART_SIZES, CalendarPart, Opcode
from gpupipe_kernels.program.program import Program

N_NUMBERS = 10
N_LOGARITHMS = 2
N_CODES = 2
N_LEVELS = 1000


def twenty_columns() -> Program:
    """Return the program: 10 imputed and scaled, 2 logarithmic, 4 one-hot, 2 lookup and 2 cyclic columns."""
    i8, i16, _, f32, _, i64 = range(len(BLOCKS))
    rows: list[tuple[int, ...]] = []
    for i in range(N_NUMBERS):
        chain = [(Opcode.LOAD, f32, i, 0), (Opcode.FILL, -1, -1, 1), (Opcode.SCALE, -1, -1, 2)]
        rows += [(op, i, block, row, 0, param, 0, 0) for op, block, row, param in chain]
    for i in range(N_NUMBERS, N_NUMBERS + N_LOGARITHMS):
        rows += [(Opcode.LOAD, i, f32, i, 0, 4, 0, 0), (Opcode.LOG1P, i, -1, -1, 0, 0, 0, 0)]
    rows += [(Opcode.EQUAL, 12 + code, i8, 0, code, 0, 0, 0) for code in range(4)]
    for i in range(N_CODES):
        rows += [(Opcode.INDEX, -1, i16, i, 0, 0, 0, 0), (Opcode.TAKE, 16 + i, -1, -1, 0, 0, i * N_LEVELS, N_LEVELS)]
    n_hours = PART_SIZES[CalendarPart.HOUR_OF_WEEK]
    rows += [(Opcode.INDEX_PART, -1, i64, 0, CalendarPart.HOUR_OF_WEEK, 0, 0, n_hours)]
    for i in range(2):
        at = N_CODES * N_LEVELS + i * (n_hours + 1)
        rows += [(Opcode.TAKE, 18 + i, -1, -1, 0, 0, at, n_hours + 1)]
    hours = np.arange(n_hours + 1) * (2 * np.pi / n_hours)
    luts = np.concatenate([np.arange(N_CODES * N_LEVELS) / N_LEVELS, np.sin(hours), np.cos(hours)])
    params = np.array([5.0, 0.0, 0.5, 0.0, 0.0])
    return Program(np.array(rows, np.int32), params, luts.astype(np.float32), 20)


def bytes_per_row(program: Program) -> int:
    """Return the bytes to read and write per row: each source column once, each cell of the matrix once."""
    return sum(np.dtype(BLOCKS[block]).itemsize for block, _ in program.sources) + 4 * program.n_columns


def table(n_rows: int) -> dict[str, Any]:
    """Return the blocks that `twenty_columns` reads, on the host."""
    rng = np.random.default_rng(0)
    numbers = rng.exponential(10.0, (N_NUMBERS + N_LOGARITHMS, n_rows)).astype(np.float32)
    numbers[:, ::10] = np.nan
    return {
        "int8": rng.integers(0, 5, (1, n_rows)).astype(np.int8),
        "int16": rng.integers(0, N_LEVELS, (N_CODES, n_rows)).astype(np.int16),
        "float32": numbers,
        "int64": rng.integers(0, 2**50, (1, n_rows)),
    }

"""Compilation of the loops over single rows, ahead of their first use."""

from __future__ import annotations

import numpy as np

from gpupipe_kernels.launch import read_only
from gpupipe_kernels.rows.dot import dot_rows
from gpupipe_kernels.rows.lowering import LoweredProgram
from gpupipe_kernels.rows.oblivious_numba import TEST_DTYPES, ObliviousTests, add_leaves, fill_outcomes
from gpupipe_kernels.rows.records import RecordLayout, flat_cells
from gpupipe_kernels.rows.row_loops import compiled_step
from gpupipe_kernels.rows.row_program import Registers
from gpupipe_kernels.rows.trees import NODE, TREE
from gpupipe_kernels.rows.trees_numba import add_float32, add_float64, add_forests_float32, transform_float64


def warm() -> None:
    """Compile all loops or load them from disk; the types of their arguments are the same for every model."""
    layout = RecordLayout(0, 0, 0, 0)
    empty = LoweredProgram((), 0, 0, np.empty(0, np.intp), np.empty(0, np.float32))
    registers = Registers(np.empty((0, 0), np.float32), np.empty((0, 0), np.int64))
    records = read_only(np.empty(0, layout.dtype))
    compiled_step(empty.table(layout), empty.luts, layout, 0, 0)(flat_cells(records), registers)

    X, out = np.empty((0, 1), np.float32), np.empty((0, 1))
    dot_rows(X, read_only(np.zeros((1, 1))), read_only(np.zeros(1)), out)
    trees = (read_only(np.zeros(1, NODE)), read_only(np.zeros(1, TREE)), read_only(np.zeros(1, np.uint32)))
    table = np.empty(1, np.int32)
    add_float32(X, *trees, read_only(np.zeros((1, 1), np.float32)), table, 0, out)
    values, ends = read_only(np.zeros((1, 1), np.float32)), read_only(np.zeros(1, np.int64))
    add_forests_float32(X, *trees, values, ends, table, 0, out)
    add_float64(X, *trees, read_only(np.zeros((1, 1))), table, out)
    transform_float64(0, out)
    numbers = read_only(np.zeros(1, np.int32))
    empty_tests = ObliviousTests(*(read_only(np.zeros(0, dtype)) for dtype in TEST_DTYPES))
    fill_outcomes(
        np.empty((0, 1), np.float32),
        *empty_tests,
        np.empty(0, np.uint32),
        np.empty(0, np.int64),
        np.zeros((0, 1), bool),
    )
    add_leaves(np.zeros((1, 1), bool), numbers, numbers, read_only(np.zeros((1, 1))), np.empty((1, 1)))

"""Checks of the device interpreter against a row-by-row interpreter, run by `test_cuda_interpreter`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numba import cuda

from gpupipe_kernels.interpreters.cuda import interpreter as cuda_interpreter
from gpupipe_kernels.launch import formula
from gpupipe_kernels.program.opcodes import NAT, CalendarPart, Opcode
from gpupipe_kernels.program.program import Program
from tests.kernels.finite import every_finite_instruction, finite_or_not, in_float64
from tests.kernels.programs import (
    F32,
    F64,
    HOUR,
    I8,
    I16,
    I64,
    Writer,
    assert_same,
    naive,
    random_program,
    random_table,
)  # fmt: skip
from tests.kernels.rounding import near_products, two_products

ROWS_A_BLOCK = 8 * max(cuda_interpreter.THREADS.values())
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of infinity, where Python computes: the simulator

ORDERS = pytest.mark.parametrize("order", ["F", "C"])


def compute(program: Any, blocks: dict[str, np.ndarray], n: int, fold=None, order="F") -> np.ndarray:
    """Run a program on the device and return its matrix on the host."""
    width = getattr(program, "program", program).n_columns
    out = cuda.to_device(np.full((n, width), 99, np.float32, order=order))
    there = {name: cuda.to_device(block) for name, block in blocks.items()}
    folds = None if fold is None else cuda.to_device(fold)
    cuda_interpreter.run(program, there, out, folds)
    return out.copy_to_host()


@pytest.mark.parametrize(
    ("n", "order"),
    [
        *((n, "F") for n in (0, 1, ROWS_A_BLOCK - 1, ROWS_A_BLOCK, ROWS_A_BLOCK + 1, 2 * ROWS_A_BLOCK + 5)),
        *((n, "C") for n in (1, ROWS_A_BLOCK + 1)),
    ],
)
def test_random_programs_give_the_same_as_row_by_row(n: int, order: str) -> None:
    for seed in range(2):
        rng = np.random.default_rng([seed, n])
        (blocks, fold), (program, exact) = random_table(rng, n), random_program(rng, 18)
        expected = naive(program, blocks, n, fold if seed else None)
        assert_same(compute(program, blocks, n, fold if seed else None, order), expected, exact)


@ORDERS
def test_every_instruction_with_nulls_and_the_ends_of_its_type(order: str) -> None:
    x = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0, 3e38, 1e-45, 88.0, -0.999]
    times = np.array([[NAT, 0, 1, -1, *np.arange(7) * 1234567 * HOUR // 1000], [0, NAT, *range(9)]])
    blocks = {
        "float32": np.array([x, x[::-1]], np.float32),
        "float64": np.array([x, x[::-1]]),
        "int64": times,
        "int8": np.array([range(-3, 8)], np.int8),
    }
    made = every_instruction()
    for n in (len(x), ROWS_A_BLOCK):
        repeated = {name: np.resize(block.T, (n, len(block))).T.copy() for name, block in blocks.items()}
        got = compute(made, repeated, n, order=order)
        np.testing.assert_allclose(got, np.resize(naive(made, blocks, len(x)), got.shape), rtol=3e-6, atol=2e-6)


@ORDERS
def test_results_that_are_not_finite_are_null(order: str) -> None:
    x = finite_or_not()
    got = compute(every_finite_instruction(), {"float32": x}, x.shape[1], order=order)
    np.testing.assert_allclose(got, in_float64(x), rtol=1e-5, atol=1e-37)


def every_instruction() -> Program:
    writer, dst = Writer(), 0
    for op, params in (
        (Opcode.FILL, (2.0,)),
        (Opcode.CLIP, (-2.0, 3.0)),
        (Opcode.SCALE, (0.5, 2.0)),
        (Opcode.LOG1P, ()),
        (Opcode.YEO_JOHNSON, (0.5,)),
    ):
        for block in (F32, F64):
            writer.put(Opcode.LOAD, dst, (block, 0), params=(0.0,))
            writer.put(op, dst, params=params)
            dst += 1
    for op in (Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY, Opcode.DIVIDE):
        writer.put(Opcode.LOAD, dst, (F32, 0), params=(0.0,))
        writer.put(Opcode.STORE, dst, arg=0)
        writer.put(Opcode.LOAD, dst, (F64, 1), params=(0.5,))
        writer.put(op, dst, arg=0)
        dst += 1
    for part in CalendarPart:
        writer.put(Opcode.PART, dst, (I64, 0), arg=int(part))
        dst += 1
    writer.put(Opcode.ELAPSED, dst, (I64, 0), params=(3.0, 0.5))
    writer.put(Opcode.BETWEEN, dst + 1, (I64, 0), arg=1, params=(0.5,))
    writer.put(Opcode.EQUAL, dst + 2, (I8, 0), arg=-3)
    writer.put(Opcode.IS_NULL, dst + 3, (I64, 0))
    writer.put(Opcode.IS_NULL, dst + 4, (F64, 0))
    return writer.program()


@ORDERS
@pytest.mark.parametrize("n_entries", [300, 5000])  # in shared memory, and not
def test_lookup_tables_are_read_from_either_memory(n_entries: int, order: str) -> None:
    rng = np.random.default_rng(n_entries)
    writer, n = Writer(), 2 * ROWS_A_BLOCK + 3
    for dst in range(4):
        writer.put(Opcode.INDEX, -1, (I16, dst % 2))
        writer.put(Opcode.TAKE, dst, table=rng.normal(size=n_entries))
    codes = rng.integers(0, n_entries, (2, n)).astype(np.int16)
    got = compute(writer.program(), {"int16": codes}, n, order=order)
    np.testing.assert_array_equal(got, naive(writer.program(), {"int16": codes}, n))


def test_columns_of_a_segment_in_several_panels_are_all_written() -> None:
    writer, n = Writer(), ROWS_A_BLOCK + 1
    for dst in range(14):
        writer.put(Opcode.EQUAL, dst, (I8, 0), arg=dst)
    writer.put(Opcode.INDEX, -1, (I8, 0))
    for dst in range(14, 40):
        writer.put(Opcode.TAKE, dst, table=np.arange(6) + dst)
    for dst in range(40, 45):
        writer.put(Opcode.EQUAL, dst, (I8, 0), arg=dst - 40)
    codes = np.random.default_rng(0).integers(0, 6, (1, n)).astype(np.int8)
    got = compute(writer.program(), {"int8": codes}, n, order="C")
    np.testing.assert_array_equal(got, naive(writer.program(), {"int8": codes}, n))


@pytest.mark.parametrize("width", [24, 23, 8])  # rows aligned to 16 bytes, or not
@pytest.mark.parametrize("n_columns", [20, 7])
def test_panels_are_written_to_aligned_and_other_rows(n_columns: int, width: int) -> None:
    width, n, writer = max(width, n_columns), 2 * ROWS_A_BLOCK + 3, Writer()
    for dst in range(n_columns):
        writer.put(Opcode.LOAD, dst, (F32, dst % 3), params=(float(dst),))
    x = np.arange(3 * n, dtype=np.float32).reshape(3, n)
    large = cuda.to_device(np.full((n, width), 7, np.float32))
    out = large[:, :n_columns]
    cuda_interpreter.run(writer.program(), {"float32": cuda.to_device(x)}, out)
    got = large.copy_to_host()
    np.testing.assert_array_equal(got[:, :n_columns], np.stack([x[i % 3] - i for i in range(n_columns)], axis=1))
    assert (got[:, n_columns:] == 7).all()


def test_more_source_columns_than_a_grid_has_rows_take_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_interpreter, "MOST_PARTS", 2)
    writer, n = Writer(), ROWS_A_BLOCK + 1
    for dst in range(5):
        writer.put(Opcode.LOAD, dst, (F32, dst), params=(0.0,))
    x = np.arange(5 * n, dtype=np.float32).reshape(5, n)
    np.testing.assert_array_equal(compute(writer.program(), {"float32": x}, n), x.T)


@dataclass(frozen=True)
class UsersKernel:
    formula: Any
    n_inputs: int


@ORDERS
def test_users_kernels_become_part_of_the_kernel(order: str) -> None:
    @formula
    def twice(a):
        return a * np.float32(2)

    @formula
    def weighted(a, b, c):
        return a + b * np.float32(10) + c * np.float32(100)

    calls: Any = (UsersKernel(twice, 1), UsersKernel(weighted, 3))
    writer = Writer()
    for i in range(3):
        writer.put(Opcode.LOAD, 0, (F32, i), params=(0.0,))
        if i < 2:
            writer.put(Opcode.STORE, 0, arg=i)
    writer.put(Opcode.CALL, 0, arg=0, size=1)
    writer.put(Opcode.CALL, 0, arg=0, size=0)
    writer.put(Opcode.LOAD, 1, (F32, 0), params=(0.0,))
    made = writer.program()
    program = Program(made.instructions, made.params, made.luts, 2, calls)
    n = ROWS_A_BLOCK + 3
    x = np.arange(3 * n, dtype=np.float32).reshape(3, n)
    got = compute(program, {"float32": x}, n, order=order)
    np.testing.assert_array_equal(got, np.stack([2 * (x[0] + 10 * x[1] + 100 * x[2]), x[0]], axis=1))


@ORDERS
def test_a_product_is_rounded_before_another_instruction_reads_it(order: str) -> None:
    x = near_products(ROWS_A_BLOCK)
    got = compute(two_products(), {"float32": x}, ROWS_A_BLOCK, order=order)
    np.testing.assert_array_equal(got, np.stack([x[0] * x[1] - x[2]] * 2, axis=1))


@ORDERS
def test_a_program_that_is_kept_runs_over_many_tables(order: str) -> None:
    rng = np.random.default_rng(3)
    program, exact = random_program(rng, 8)
    ready = cuda_interpreter.DeviceProgram(program)
    for n in (5, ROWS_A_BLOCK + 12):
        blocks, fold = random_table(rng, n)
        assert_same(compute(ready, blocks, n, fold, order), naive(program, blocks, n, fold), exact)


def test_slices_of_tables_and_matrices_are_read_and_written_in_place() -> None:
    rng, n = np.random.default_rng(4), ROWS_A_BLOCK + 20
    (blocks, _), (program, exact) = random_table(rng, n + 150), random_program(rng, 6)
    there = {name: cuda.to_device(block)[:, 100 : n + 100] for name, block in blocks.items()}
    here = {name: block[:, 100 : n + 100] for name, block in blocks.items()}
    for order in ("F", "C"):
        large = cuda.to_device(np.full((n + 50, 10), 7, np.float32, order=order))
        cuda_interpreter.run(program, there, large[20 : n + 20, 2:-2])
        got = large.copy_to_host()
        assert_same(got[20 : n + 20, 2:-2], naive(program, here, n), exact)
        got[20 : n + 20, 2:-2] = 7
        assert (got == 7).all()


def scaled(fill: float, n_levels: int) -> Program:
    """Return a small program with the parameters and lookup table of another fit."""
    writer = Writer()
    writer.put(Opcode.LOAD, 0, (F32, 0), params=(fill,))
    writer.put(Opcode.FILL, 0, params=(2 * fill,))
    writer.put(Opcode.INDEX, -1, (I8, 0))
    writer.put(Opcode.TAKE, 1, table=np.arange(n_levels) * fill)
    return writer.program()


def test_nothing_is_uploaded_once_a_program_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"float32": cuda.to_device(np.ones((1, 9), np.float32)), "int8": cuda.to_device(np.ones((1, 9), np.int8))}
    out, ready = cuda.device_array((9, 2), np.float32, order="F"), cuda_interpreter.DeviceProgram(scaled(1.0, 3))
    cuda_interpreter.run(ready, there, out)
    n_bytes, uploads = ready.n_bytes, []
    monkeypatch.setattr(cuda, "to_device", lambda array, *more: uploads.append(array))
    cuda_interpreter.run(ready, there, out)
    assert (uploads, ready.n_bytes) == ([], n_bytes)


def test_arguments_that_do_not_match_the_program_are_rejected() -> None:
    writer = Writer()
    writer.put(Opcode.LOAD, 0, (F32, 1), params=(0.0,))
    program = writer.program()
    with pytest.raises(ValueError, match="block of float32 with at least 2 columns and 6 rows, got float32"):
        compute(program, {"float32": np.zeros((2, 5), np.float32)}, 6)
    apart = cuda.to_device(np.zeros((2, 12), np.float32))[:, ::2]
    with pytest.raises(ValueError, match="expected contiguous rows"):
        cuda_interpreter.run(program, {"float32": apart}, cuda.to_device(np.zeros((6, 1), np.float32)))
    with pytest.raises(ValueError, match=r"expected int8 folds of shape \(6,\)"):
        compute(program, {"float32": np.zeros((2, 6), np.float32)}, 6, np.zeros(5, np.int8))

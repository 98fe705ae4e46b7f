"""Programs against a row-by-row interpreter, instructions against float64 NumPy; blocks, threads, invalid arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpupipe_kernels.interpreters.numpy.interpreter import BLOCK_ROWS, PART_ROWS, run
from gpupipe_kernels.program.opcodes import BLOCKS, NAT, CalendarPart, Opcode
from gpupipe_kernels.program.program import Program
from tests.examples import examples
from tests.kernels.programs import Writer, assert_same, naive, random_program, random_table

F64 = BLOCKS.index("float64")
I8 = BLOCKS.index("int8")
I64 = BLOCKS.index("int64")
VALUES = arrays(np.float64, st.integers(0, 50), elements=st.floats(-1e6, 1e6) | st.just(math.nan))


def program(*rows: list[int], params: tuple[float, ...] = (), luts: tuple[float, ...] = (), width: int = 1) -> Program:
    table = np.array(rows, np.int32).reshape(-1, 8)
    return Program(table, np.array(params, np.float64), np.array(luts, np.float32), width)


def compute(made: Program, blocks: dict[str, np.ndarray], n: int, fold=None, n_threads: int = 1) -> np.ndarray:
    out = np.full((n, made.n_columns), 99, np.float32, order="F")
    run(made, blocks, out, fold, n_threads)
    return out


@examples(60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 60),
    n_columns=st.integers(1, 20),
    folds=st.booleans(),
    is_strided=st.booleans(),
)
def test_random_programs_give_the_same_row_by_row(
    seed: int, n: int, n_columns: int, folds: bool, is_strided: bool
) -> None:
    rng = np.random.default_rng(seed)
    (blocks, fold_of), (made, exact) = random_table(rng, n), random_program(rng, n_columns)
    expected = naive(made, blocks, n, fold_of if folds else None)
    if is_strided:
        blocks = {name: np.repeat(block, 3, axis=1)[:, ::3] for name, block in blocks.items()}
    for block in blocks.values():
        block.flags.writeable = False
    assert_same(compute(made, blocks, n, fold_of if folds else None), expected, exact)


def test_an_index_outside_of_its_table_stays_inside() -> None:
    writer = Writer()
    writer.put(Opcode.INDEX, -1, (I8, 0))
    writer.put(Opcode.TAKE, 0, table=[10.0, 11.0, 12.0])
    codes = np.array([[-128, -1, 0, 2, 3, 127]], np.int8)
    got = compute(writer.program(), {"int8": codes}, 6)[:, 0]
    np.testing.assert_array_equal(got, [10, 10, 10, 12, 12, 12])


@given(x=VALUES)
def test_a_chain_is_that_of_float64(x: np.ndarray) -> None:
    made = program(
        [Opcode.LOAD, 0, F64, 0, 0, 0, 0, 0],
        [Opcode.FILL, 0, -1, -1, 0, 1, 0, 0],
        [Opcode.CLIP, 0, -1, -1, 0, 2, 0, 0],
        [Opcode.LOG1P, 0, -1, -1, 0, 0, 0, 0],
        [Opcode.SCALE, 0, -1, -1, 0, 4, 0, 0],
        params=(0.0, 7.0, 0.0, 1e5, 0.5, -2.0),
    )
    expected = np.log1p(np.clip(np.where(np.isnan(x), 7.0, x), 0.0, 1e5)) * 0.5 - 2.0
    np.testing.assert_allclose(compute(made, {"float64": x[None]}, len(x))[:, 0], expected, rtol=2e-6, atol=2e-6)


def test_centring_a_large_mean_keeps_a_small_spread() -> None:
    x = -87.63 + np.linspace(0, 1e-4, 100)
    made = program(
        [Opcode.LOAD, 0, F64, 0, 0, 0, 0, 0], [Opcode.SCALE, 0, -1, -1, 0, 1, 0, 0], params=(-87.63, 1e4, 0.0)
    )
    got = compute(made, {"float64": x[None]}, 100)[:, 0]
    np.testing.assert_allclose(got, (x + 87.63) * 1e4, atol=1e-6)  # float32 alone would be off by 0.04


@given(codes=arrays(np.int8, 40, elements=st.integers(0, 5)), fold=arrays(np.int8, 40, elements=st.integers(0, 2)))
def test_a_look_up_reads_the_table_of_its_fold(codes: np.ndarray, fold: np.ndarray) -> None:
    tables = np.arange(18, dtype=np.float32) * 0.5
    made = program(
        [Opcode.INDEX, -1, I8, 0, 0, 0, 0, 0],
        [Opcode.INDEX_FOLD, -1, -1, -1, 6, 0, 0, 0],
        [Opcode.TAKE, 0, -1, -1, 0, 0, 0, 18],
        luts=tuple(tables),
    )
    got = compute(made, {"int8": codes[None]}, 40, fold)[:, 0]
    np.testing.assert_array_equal(got, tables.reshape(3, 6)[fold, codes])
    np.testing.assert_array_equal(compute(made, {"int8": codes[None]}, 40)[:, 0], tables[codes])


@given(a=arrays(np.int8, 30, elements=st.integers(0, 4)), b=arrays(np.int8, 30, elements=st.integers(0, 2)))
def test_a_pair_looks_up_row_and_column(a: np.ndarray, b: np.ndarray) -> None:
    made = program(
        [Opcode.INDEX, -1, I8, 0, 0, 0, 0, 0],
        [Opcode.INDEX_PAIR, -1, I8, 1, 3, 0, 0, 0],
        [Opcode.TAKE, 0, -1, -1, 0, 0, 0, 15],
        luts=tuple(range(15)),
    )
    got = compute(made, {"int8": np.stack([a, b])}, 30)[:, 0]
    np.testing.assert_array_equal(got, np.arange(15).reshape(5, 3)[a, b])


@given(x=VALUES)
def test_a_bin_includes_its_left_edge(x: np.ndarray) -> None:
    edges = (-10.0, 0.0, 2.5)
    made = program(
        [Opcode.INDEX_BIN, -1, F64, 0, 3, 0, -1, 3], [Opcode.TAKE, 0, -1, -1, 0, 0, 0, 7],
        params=edges, luts=tuple(range(7)),
    )  # fmt: skip
    bins = [0 if math.isnan(v) else 3 + sum(v >= edge for edge in edges) for v in x]
    np.testing.assert_array_equal(compute(made, {"float64": x[None]}, len(x))[:, 0], bins)


def test_a_missing_time_is_nan_as_a_value_and_the_last_entry_as_an_index() -> None:
    times = np.array([NAT, 0, 3 * 3_600_000_000], np.int64)
    made = program(
        [Opcode.PART, 0, I64, 0, CalendarPart.HOUR, 0, 0, 0],
        [Opcode.IS_NULL, 1, I64, 0, 0, 0, 0, 0],
        [Opcode.ELAPSED, 2, I64, 0, 0, 0, 0, 0],
        [Opcode.INDEX_PART, -1, I64, 0, CalendarPart.HOUR, 0, 0, 24],
        [Opcode.TAKE, 3, -1, -1, 0, 0, 0, 25],
        params=(0.0, 1 / 3.6e9), luts=tuple(range(25)), width=4,
    )  # fmt: skip
    got = compute(made, {"int64": times[None]}, 3)
    np.testing.assert_array_equal(got, [[np.nan, 1, np.nan, 24], [0, 0, 0, 0], [3, 0, 3, 3]])


@pytest.mark.parametrize("n", [1, PART_ROWS, PART_ROWS + 1, 2 * PART_ROWS + 1])
def test_every_row_has_its_calendar_part(n: int) -> None:
    hours = np.arange(n) * 7 % 24
    made = program(
        [Opcode.PART, 0, I64, 0, CalendarPart.HOUR, 0, 0, 0],
        [Opcode.INDEX_PART, -1, I64, 0, CalendarPart.HOUR, 0, 0, 24], [Opcode.TAKE, 1, -1, -1, 0, 0, 0, 25],
        luts=tuple(range(25)), width=2,
    )  # fmt: skip
    got = compute(made, {"int64": hours[None] * 3_600_000_000}, n)
    np.testing.assert_array_equal(got, np.stack([hours, hours], axis=1))


@examples(10)
@given(extra=st.sampled_from([-1, 0, 1, 7, BLOCK_ROWS + 3]), n_threads=st.integers(1, 4))
def test_blocks_and_threads_do_not_change_a_bit(extra: int, n_threads: int) -> None:
    n = BLOCK_ROWS + extra
    x = np.random.default_rng(n).normal(size=n)
    codes = (np.arange(n) % 5).astype(np.int8)
    made = program(
        [Opcode.LOAD, 0, F64, 0, 0, 0, 0, 0], [Opcode.LOG1P, 0, -1, -1, 0, 0, 0, 0],
        [Opcode.EQUAL, 1, I8, 0, 3, 0, 0, 0], params=(0.0,), width=2,
    )  # fmt: skip
    got = compute(made, {"float64": x[None], "int8": codes[None]}, n, None, n_threads)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got[:, 0], np.log1p(x.astype(np.float32)))
    np.testing.assert_array_equal(got[:, 1], codes == 3)


def test_a_matrix_of_another_shape_is_refused() -> None:
    made = program([Opcode.LOAD, 0, F64, 0, 0, 0, 0, 0], params=(0.0,))
    with pytest.raises(ValueError, match="1 columns"):
        run(made, {"float64": np.zeros((1, 3))}, np.zeros((3, 2), np.float32))

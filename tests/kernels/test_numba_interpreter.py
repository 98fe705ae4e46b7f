"""Host interpreter compiled by Numba, against NumPy's and a row-by-row interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe_kernels.interpreters.numba import interpreter as numba_interpreter
from gpupipe_kernels.interpreters.numpy import interpreter as numpy_interpreter
from gpupipe_kernels.program.opcodes import NAT, CalendarPart, Opcode
from gpupipe_kernels.program.program import Program
from tests.examples import examples
from tests.kernels.programs import F64, I8, I64, Writer, assert_same, naive, random_program, random_table

SEEDS = st.integers(0, 2**32 - 1)
TILE = numba_interpreter.COLUMN_TILE


@pytest.fixture(scope="module", autouse=True)
def compiled_once() -> Iterator[None]:
    """Compile ahead, and check that no test triggers compilation for other types."""
    numba_interpreter.warm()
    yield
    assert len(numba_interpreter._run_rows.signatures) == 1


def compute(program: Program, blocks: dict[str, np.ndarray], n: int, fold=None, order="F", n_threads=1) -> np.ndarray:
    out = np.full((n, program.n_columns), 99, np.float32, order=order)
    numba_interpreter.run(program, blocks, out, fold, n_threads)
    return out


def expected(program: Program, blocks: dict[str, np.ndarray], n: int, fold=None) -> np.ndarray:
    out = np.full((n, program.n_columns), 99, np.float32, order="F")
    numpy_interpreter.run(program, blocks, out, fold)
    return out


@examples(60)
@given(seed=SEEDS, n=st.integers(0, 60), n_columns=st.integers(1, 20), folds=st.booleans())
def test_random_programs_give_the_same_row_by_row_in_numpy_and_compiled(
    seed: int, n: int, n_columns: int, folds: bool
) -> None:
    rng = np.random.default_rng(seed)
    (blocks, fold_of), (program, exact) = random_table(rng, n), random_program(rng, n_columns)
    fold = fold_of if folds else None
    slow = naive(program, blocks, n, fold)
    assert_same(expected(program, blocks, n, fold), slow, exact)
    columns = compute(program, blocks, n, fold)
    assert_same(columns, slow, exact)
    np.testing.assert_array_equal(compute(program, blocks, n, fold, order="C"), columns)


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n", [TILE - 1, TILE, TILE + 1, 3 * TILE + 7])
def test_tiles_blocks_and_threads_do_not_change_a_bit(n: int, n_threads: int, order: str) -> None:
    rng = np.random.default_rng(n)
    (blocks, fold), (program, exact) = random_table(rng, n), random_program(rng, 30)
    got = compute(program, blocks, n, fold, order, n_threads)
    assert_same(got, expected(program, blocks, n, fold), exact)


def test_slices_of_longer_tables_and_of_larger_matrices_are_read_and_written_in_place() -> None:
    rng = np.random.default_rng(0)
    (blocks, fold), (program, exact) = random_table(rng, 500), random_program(rng, 12)
    part = {name: block[:, 100:340] for name, block in blocks.items()}
    for order in ("F", "C"):
        large = np.full((300, program.n_columns + 4), 7, np.float32, order=order)
        numba_interpreter.run(program, part, large[30:270, 2:-2], fold[100:340])
        assert_same(large[30:270, 2:-2], expected(program, part, 240, fold[100:340]), exact)
        large[30:270, 2:-2] = 7
        assert (large == 7).all()


def test_read_only_and_strided_blocks_are_read_too() -> None:
    rng = np.random.default_rng(1)
    (blocks, _), (program, exact) = random_table(rng, 40), random_program(rng, 12)
    apart = {name: np.repeat(block, 3, axis=1)[:, ::3] for name, block in blocks.items()}
    for block in blocks.values():
        block.flags.writeable = False
    assert_same(compute(program, apart, 40), compute(program, blocks, 40), exact)


def test_the_ends_of_the_times_are_those_of_numpy() -> None:
    times = np.array([[NAT, NAT + 1, 2**63 - 1, -1, 0, 1], [0, NAT, -(2**63) + 1, 2**63 - 1, NAT, -1]])
    writer = Writer()
    for part in CalendarPart:
        writer.put(Opcode.PART, int(part), (I64, 0), arg=int(part))
    writer.put(Opcode.ELAPSED, len(CalendarPart), (I64, 0), params=(1.5e15, 1e-6))
    writer.put(Opcode.BETWEEN, len(CalendarPart) + 1, (I64, 0), arg=1, params=(1e-6,))
    writer.put(Opcode.IS_NULL, len(CalendarPart) + 2, (I64, 0))
    program = writer.program()
    np.testing.assert_array_equal(
        compute(program, {"int64": times}, 6), expected(program, {"int64": times}, 6), strict=True
    )


@pytest.mark.parametrize("edges", [[], [0.0], [-np.inf, -1.0, 0.0, 2.5, np.inf], list(np.linspace(-3, 3, 200))])
def test_few_and_many_edges_give_the_bins_of_numpy(edges: list[float]) -> None:
    x = np.array([[-np.inf, -3, -1, -0.0, 0.0, 1e-30, 2.5, 3, np.inf, np.nan, 0.3, 1e300]])
    writer = Writer()
    writer.put(Opcode.INDEX_BIN, -1, (F64, 0), arg=1, table=edges)
    writer.put(Opcode.TAKE, 0, table=np.arange(len(edges) + 2))
    got = compute(writer.program(), {"float64": x}, x.shape[1])[:, 0]
    bins = [0 if np.isnan(v) else 1 + sum(edge <= v for edge in edges) for v in x[0]]
    np.testing.assert_array_equal(got, bins)


def test_an_index_outside_of_its_table_stays_inside() -> None:
    writer = Writer()
    writer.put(Opcode.INDEX, -1, (I8, 0))
    writer.put(Opcode.TAKE, 0, table=[10.0, 11.0, 12.0])
    codes = np.array([[-128, -1, 0, 2, 3, 127]], np.int8)
    got = compute(writer.program(), {"int8": codes}, 6)[:, 0]
    np.testing.assert_array_equal(got, [10, 10, 10, 12, 12, 12])
    np.testing.assert_array_equal(got, expected(writer.program(), {"int8": codes}, 6)[:, 0])


def test_a_matrix_of_another_shape_dtype_or_layout_is_refused() -> None:
    writer = Writer()
    writer.put(Opcode.EQUAL, 0, (I8, 0), arg=1)
    writer.put(Opcode.EQUAL, 1, (I8, 0), arg=2)
    blocks = {"int8": np.zeros((1, 4), np.int8)}
    for out in (np.zeros((4, 3), np.float32), np.zeros((4, 2)), np.zeros((8, 4), np.float32)[::2, ::2]):
        with pytest.raises(ValueError, match=r"expected a .* matrix"):
            numba_interpreter.run(writer.program(), blocks, out)


def test_blocks_and_folds_that_do_not_fit_are_refused() -> None:
    writer = Writer()
    writer.put(Opcode.EQUAL, 0, (I8, 1), arg=1)
    program, out = writer.program(), np.zeros((4, 1), np.float32)
    with pytest.raises(ValueError, match="block of int8 with at least 2 columns and 4 rows, got int8"):
        numba_interpreter.run(program, {"int8": np.zeros((1, 4), np.int8)}, out)
    with pytest.raises(ValueError, match=r"expected folds of shape \(4,\)"):
        numba_interpreter.run(program, {"int8": np.zeros((2, 4), np.int8)}, out, np.zeros(3, np.int8))


def test_a_program_with_a_users_kernel_is_refused() -> None:
    program = Program(np.zeros((0, 8), np.int32), np.empty(0), np.empty(0, np.float32), 1, (SimpleNamespace(),))
    assert not numba_interpreter.supports(program)
    with pytest.raises(ValueError, match="user kernels"):
        numba_interpreter.run(program, {}, np.zeros((0, 1), np.float32))


def test_another_process_reads_the_code_from_disk() -> None:
    code = (
        "from gpupipe_kernels.interpreters.numba import interpreter as i\n"
        "i.warm(); print(sum(i._run_rows.stats.cache_hits.values()), sum(i._run_rows.stats.cache_misses.values()))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1", "0"], done.stderr

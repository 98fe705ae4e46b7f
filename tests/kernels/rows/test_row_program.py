"""Programs in register form, for single rows, against the NumPy interpreter of tables: bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe_kernels.interpreters.numpy import interpreter as numpy_interpreter
from gpupipe_kernels.program.opcodes import BLOCKS, CalendarPart, Opcode
from gpupipe_kernels.program.program import NO_TABLE, Program
from gpupipe_kernels.rows.lowering import lower
from gpupipe_kernels.rows.records import CODE, DOUBLE, KIND_OF_BLOCK, SINGLE, TIME, RecordLayout
from gpupipe_kernels.rows.row_program import RowProgram
from tests.examples import examples
from tests.kernels.programs import CODES, NUMBERS, TIMES, random_program, random_table

ORDER = {kind: [c for c in (*CODES, *NUMBERS, *TIMES) if KIND_OF_BLOCK[c[0]] == kind] for kind in range(4)}
POSITIONS = {column: i for columns in ORDER.values() for i, column in enumerate(columns)}
FIELDS = {SINGLE: "single", DOUBLE: "double", TIME: "times", CODE: "codes"}
LAYOUT = RecordLayout(len(ORDER[DOUBLE]), len(ORDER[SINGLE]), len(ORDER[TIME]), len(ORDER[CODE]))


def records_of(blocks: dict[str, np.ndarray], rows: slice) -> np.ndarray:
    found = np.zeros(len(blocks["int64"][0][rows]), LAYOUT.dtype)
    for kind, columns in ORDER.items():
        for i, (block, row) in enumerate(columns):
            found[FIELDS[kind]][:, i] = blocks[BLOCKS[block]][row][rows]
    found.flags.writeable = False
    return found


def of_table(program: Program, blocks: dict[str, np.ndarray], n: int) -> np.ndarray:
    out = np.full((n, program.n_columns), 99, np.float32, order="F")
    numpy_interpreter.run(program, blocks, out)
    return out


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("engine", ["numpy", "numba"])
@examples(60)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), n_columns=st.integers(1, 20))
def test_random_programs_have_the_bits_of_the_whole_table(engine, seed: int, n: int, n_columns: int) -> None:
    rng = np.random.default_rng(seed)
    (blocks, _), (program, _) = random_table(rng, n), random_program(rng, n_columns)
    compiled = RowProgram(program, POSITIONS, LAYOUT, engine)
    expected = of_table(program, blocks, n)
    assert_same_bits(compiled.run(records_of(blocks, slice(n))), expected)
    for row in range(min(n, 3)):
        assert_same_bits(compiled.run(records_of(blocks, slice(row, row + 1))), expected[row : row + 1])


def test_equal_parts_in_two_zones_are_two_groups() -> None:
    rows = [[Opcode.LOCAL_PART, i, *TIMES[0], CalendarPart.HOUR, i, NO_TABLE, 1] for i in range(2)]
    program = Program(np.array(rows, np.int32), np.array([0.0, 3_600e6]), np.empty(0, np.float32), 2)
    blocks, _ = random_table(np.random.default_rng(3), 9)
    found = RowProgram(program, POSITIONS, LAYOUT).run(records_of(blocks, slice(9)))
    assert_same_bits(found, of_table(program, blocks, 9))


def test_equal_instructions_run_as_one_group() -> None:
    rng = np.random.default_rng(5)
    program, _ = random_program(rng, 200)
    lowered = lower(program, POSITIONS)
    assert len(lowered.groups) < len(lowered.instructions) / 4
    # Compiled code runs everything between two rounds of library functions in one call.
    library = sum(group.is_library for group in lowered.groups)
    assert len(RowProgram(program, POSITIONS, LAYOUT, "numba")._steps) <= 2 * library + 1
    assert {Opcode(g.members[0].op) for g in lowered.groups if g.is_library} >= {Opcode.LOG1P, Opcode.SINE}


@pytest.mark.parametrize("sizes", [(0, 0, 0, 0), (1, 0, 0, 1), (2, 3, 1, 2), (0, 1, 2, 4)])
def test_cells_of_all_records_are_aligned(sizes: tuple[int, int, int, int]) -> None:
    """A record is a whole number of float64, so it is found in the flat array of each type."""
    layout = RecordLayout(*sizes)
    records = np.arange(3 * layout.dtype.itemsize, dtype=np.uint8).view(layout.dtype)
    flat = {"single": "f4", "double": "f8", "times": "i8", "codes": "i4"}
    for (name, kind), start in zip(flat.items(), layout.starts, strict=True):
        assert records[name].flags.aligned
        numbers = records.view(kind)
        step = len(numbers) // 3
        for row in range(3):
            first = numbers[row * step + start : row * step + start + records[name].shape[1]]
            np.testing.assert_array_equal(first.view("u1"), np.ascontiguousarray(records[name][row]).view("u1"))

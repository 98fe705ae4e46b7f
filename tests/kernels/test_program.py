"""Checks of untrusted programs: no instruction may access memory outside its tables."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe_kernels.interpreters.numpy.interpreter import run
from gpupipe_kernels.program.opcodes import BLOCKS, CalendarPart, Field, Opcode
from gpupipe_kernels.program.program import NO_TABLE, Program

I8, F64, I64 = (BLOCKS.index(name) for name in ("int8", "float64", "int64"))
SOUND = np.array(
    [
        [Opcode.LOAD, 0, F64, 0, 0, 0, 0, 0],
        [Opcode.FILL, 0, -1, -1, 0, 1, 0, 0],
        [Opcode.INDEX, -1, I8, 0, 0, 0, 0, 0],
        [Opcode.INDEX_PAIR, -1, I8, 1, 4, 0, 0, 0],
        [Opcode.TAKE, 1, -1, -1, 0, 0, 0, 20],
    ],
    np.int32,
)


def check(instructions: np.ndarray) -> None:
    made = Program(instructions, np.zeros(2), np.zeros(20, np.float32), 2)
    made.check({I8: 2, F64: 1}, {(I8, 0): 5, (I8, 1): 4})


def test_a_sound_program_passes() -> None:
    check(SOUND)


@pytest.mark.parametrize(
    ("row", "field", "value"),
    [
        (0, Field.DST, 2),
        (0, Field.ROW, 1),
        (0, Field.BLOCK, I8),
        (1, Field.PARAM, 2),
        (2, Field.ROW, 2),
        (3, Field.ARG, 3),
        (4, Field.SIZE, 19),
        (4, Field.LUT, 1),
        (4, Field.OP, 77),
    ],
)
def test_an_instruction_that_reaches_outside_is_refused(row: int, field: Field, value: int) -> None:
    changed = SOUND.copy()
    changed[row, field] = value
    with pytest.raises(ValueError, match=f"instruction {row}"):
        check(changed)


@given(st.integers(0, 4), st.integers(0, 7), st.integers(-(2**31), 2**31 - 1))
def test_whatever_is_accepted_runs_without_reaching_outside(row: int, field: int, value: int) -> None:
    from gpupipe_kernels.interpreters.numpy.interpreter import run

    changed = SOUND.copy()
    changed[row, field] = value
    try:
        check(changed)
    except ValueError:
        return
    made = Program(changed, np.zeros(2), np.zeros(20, np.float32), 2)
    codes = np.array([[0, 4, 2], [3, 3, 0]], np.int8)
    run(made, {"int8": codes, "float64": np.zeros((1, 3))}, np.zeros((3, 2), np.float32, order="F"))


@pytest.mark.parametrize(
    ("table", "arg", "message"),
    [
        ([1e6], CalendarPart.YEAR, ""),
        ([0.0, 1e6, 2e6], CalendarPart.HOUR, ""),
        ([0.0, 1e6], CalendarPart.HOUR, "LOCAL_PART has a malformed time zone"),
        ([], CalendarPart.HOUR, "LOCAL_PART has a malformed time zone"),
        ([5.0, 5.0, 1e6, 2e6, 3e6], CalendarPart.HOUR, "LOCAL_PART has a malformed time zone"),
        ([0.0, np.nan, 2e6], CalendarPart.HOUR, "LOCAL_PART has a malformed time zone"),
        ([0.0, 2.0**53, 2e6], CalendarPart.HOUR, "LOCAL_PART has a malformed time zone"),
        ([1e6], 99, "99 is not a valid CalendarPart"),
    ],
)
def test_a_malformed_time_zone_is_refused(table: list[float], arg: int, message: str) -> None:
    rows = np.array([[Opcode.LOCAL_PART, 0, I64, 0, arg, 0, NO_TABLE, len(table)]], np.int32)
    made = Program(rows, np.array(table), np.empty(0, np.float32), 1)
    with pytest.raises(ValueError, match=message) if message else nullcontext():
        made.check({I64: 1}, {})
    rows[0, Field.SIZE] = len(table) + 2
    with pytest.raises(ValueError, match="instruction 0: LOCAL_PART reads outside the parameters"):
        Program(rows, np.array(table), np.empty(0, np.float32), 1).check({I64: 1}, {})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([3.0, 4.0, 4.0, 1e6], ""),
        ([2.0, 3.0, 1e6], "ZONED_PART looks up time zone 1 in a table of 1"),
        ([], "malformed"),
        ([1.0], "malformed"),
        ([4.0, 4.0, 4.0], "malformed"),
        ([3.0, 5.0, 4.0, 1e6], "malformed"),
        ([3.0, 4.0, 5.0, 1e6], "malformed"),
        ([3.0, 3.0, 3.0, 1e6], "malformed"),
        ([3.0, 3.5, 4.0, 1e6], "malformed"),
        ([3.0, -np.inf, 4.0, 1e6], "malformed"),
        ([np.nan, 4.0, 4.0, 1e6], "malformed"),
        ([3.0, 5.0, 5.0, 0.0, 1e6], "malformed"),
        ([3.0, 4.0, 4.0, np.inf], "malformed"),
    ],
)
def test_malformed_time_zones_are_refused(table: list[float], message: str) -> None:
    part = [Opcode.ZONED_PART, 0, I64, 0, CalendarPart.HOUR, 0, NO_TABLE, len(table)]
    rows = np.array([[Opcode.INDEX, -1, I8, 0, 0, 0, 0, 0], part], np.int32)
    made = Program(rows, np.array(table), np.empty(0, np.float32), 1)
    with pytest.raises(ValueError, match=message) if message else nullcontext():
        made.check({I64: 1, I8: 1}, {(I8, 0): 2})
    with pytest.raises(ValueError, match="instruction 0: ZONED_PART has no index"):
        Program(rows[1:], np.array(table), np.empty(0, np.float32), 1).check({I64: 1}, {})


def test_a_year_in_a_time_zone_cannot_be_an_index() -> None:
    rows = [[Opcode.INDEX_LOCAL_PART, -1, I64, 0, CalendarPart.YEAR, 0, NO_TABLE, 1], [*then(Opcode.TAKE, 0)]]
    made = Program(np.array(rows, np.int32), np.zeros(1), np.zeros(8, np.float32), 1)
    with pytest.raises(ValueError, match="YEAR cannot be an index"):
        made.check({I64: 1}, {})


def columns_and_codes(*rows: tuple[int, ...], width: int) -> None:
    """Check a program over one float64 and one int8 column."""
    table = np.array(rows, np.int32)
    Program(table, np.zeros(2), np.zeros(8, np.float32), width).check({I8: 1, F64: 1}, {(I8, 0): 5})


def load(to: int) -> tuple[int, ...]:
    return (Opcode.LOAD, to, F64, 0, 0, 0, 0, 0)


def then(op: Opcode, to: int, arg: int = 0) -> tuple[int, ...]:
    return (op, to, -1, -1, arg, 0, 0, 8 if op == Opcode.TAKE else 0)


INDEX = (Opcode.INDEX, -1, I8, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    "rows",
    [
        [load(0), then(Opcode.LOG1P, 1)],
        [load(0), load(1), then(Opcode.LOG1P, 0)],
        [load(0), INDEX, then(Opcode.LOG1P, 0), then(Opcode.TAKE, 1)],
        [INDEX, then(Opcode.LOG1P, 0), then(Opcode.TAKE, 1)],
        [INDEX, then(Opcode.TAKE, 0), then(Opcode.TAKE, 1), then(Opcode.LOG1P, 0)],
        [load(0), then(Opcode.STORE, 1), load(1), then(Opcode.ADD, 1)],
        [load(0), then(Opcode.STORE, 0), load(1), then(Opcode.ADD, 1)],
        [load(0), then(Opcode.STORE, 0), load(1), then(Opcode.ADD, 0)],
        [load(0), then(Opcode.STORE, 0), load(0), then(Opcode.ADD, 1)],
        [load(0), then(Opcode.STORE, 0), INDEX, then(Opcode.TAKE, 1), then(Opcode.ADD, 0)],
        [then(Opcode.STORE, 0), load(0), then(Opcode.ADD, 0), load(1)],
    ],
)
def test_a_value_of_another_column_is_rejected(rows: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"^instruction \d: \w+ for column \d uses a value that was computed for "):
        columns_and_codes(*rows, width=2)


def test_a_column_of_two_segments_or_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="instruction 2: LOAD writes column 0, which another segment already writes"):
        columns_and_codes(load(0), load(1), load(0), width=2)
    with pytest.raises(ValueError, match="the program writes 1 of 2 columns"):
        columns_and_codes(load(0), then(Opcode.LOG1P, 0), width=2)


def test_columns_of_one_segment_may_follow_each_other() -> None:
    columns_and_codes(
        INDEX, then(Opcode.TAKE, 1), then(Opcode.LOG1P, 1), then(Opcode.TAKE, 0), then(Opcode.LOG1P, 0), width=2
    )
    columns_and_codes(
        INDEX, then(Opcode.TAKE, 0), then(Opcode.STORE, 0), INDEX, then(Opcode.TAKE, 0), then(Opcode.ADD, 0), width=1
    )
    nested = [
        load(1),
        then(Opcode.STORE, 1),
        load(1),
        then(Opcode.STORE, 1, 1),
        load(1),
        then(Opcode.ADD, 1, 1),
        then(Opcode.ADD, 1),
    ]
    columns_and_codes(load(0), *nested, width=2)


def test_segments_start_where_nothing_is_carried_over() -> None:
    made = Program(SOUND, np.zeros(2), np.zeros(20, np.float32), 2)
    assert made.segments.tolist() == [0, 2, 5]


def test_bins_of_programs_with_float32_edges_are_kept() -> None:
    """Earlier versions rounded a float64 column and its edges to float32."""
    rng = np.random.default_rng(2)
    edges = np.unique((rng.normal(size=300) * 10.0 ** rng.integers(-6, 10, 300)).astype(np.float32))
    middle = (edges.astype(np.float64) + np.nextafter(edges, np.float32(-np.inf))) / 2
    x = np.concatenate([edges, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), [np.nan]])
    n = len(edges)
    rows = [[Opcode.INDEX_BIN, -1, F64, 0, 3, 7, 0, n], [Opcode.TAKE, 0, -1, -1, 0, 7, n, n + 4]]
    arrays: dict[str, Any] = {
        "instructions": np.array(rows, np.int32),
        "params": np.zeros(2),
        "luts": np.concatenate([edges, np.arange(n + 4, dtype=np.float32)]),
    }
    program = Program.from_arrays(arrays, 1)
    program.check({F64: 1}, {})
    out = np.empty((len(x), 1), np.float32, order="F")
    run(program, {"float64": x[None]}, out)
    expected = 3 + np.searchsorted(edges, x.astype(np.float32), side="right")
    np.testing.assert_array_equal(out[:-1, 0], expected[:-1])
    assert out[-1, 0] == 0
    again = Program.from_arrays(program.arrays(), 1)
    np.testing.assert_array_equal(again.params, program.params)


def test_columns_of_a_program_keep_their_float64_edges() -> None:
    rows = [
        [Opcode.LOAD, 0, F64, 0, 0, 0, 0, 0],
        [Opcode.INDEX_BIN, -1, F64, 0, 0, 1, NO_TABLE, 2],
        [Opcode.TAKE, 1, -1, -1, 0, 3, 0, 3],
    ]
    program = Program(np.array(rows, np.int32), np.array([5.0, 1e9, 1e9 + 1]), np.arange(3, dtype=np.float32), 2)
    program.check({F64: 1}, {})
    one = program.of_columns([1])
    assert one.params.tolist() == [1e9, 1e9 + 1]
    out = np.empty((3, 1), np.float32, order="F")
    run(one, {"float64": np.array([[1e9 - 1, 1e9, 1e9 + 1]])}, out)
    assert out[:, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("field", "value"), [(Field.PARAM, 2), (Field.PARAM, -1), (Field.SIZE, 4), (Field.SIZE, -1)])
def test_edges_outside_of_the_parameters_are_refused(field: Field, value: int) -> None:
    rows = np.array([[Opcode.INDEX_BIN, -1, F64, 0, 0, 0, NO_TABLE, 3], [Opcode.TAKE, 0, -1, -1, 0, 0, 0, 4]], np.int32)
    rows[0, field] = value
    with pytest.raises(ValueError, match="instruction 0"):
        Program(rows, np.zeros(3), np.zeros(4, np.float32), 1).check({F64: 1}, {})

"""Schedules of programs for the device interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from gpupipe_kernels.interpreters.cuda.schedule import (
    ARG,
    DST,
    LAST,
    OP,
    ROW,
    schedule,
)
from gpupipe_kernels.program.opcodes import Opcode
from tests.kernels.programs import F32, I8, Writer


def writer() -> Writer:
    made = Writer()
    made.put(Opcode.EQUAL, 0, (I8, 1), arg=1)
    made.put(Opcode.LOAD, 1, (F32, 0), params=(2.5,))
    made.put(Opcode.FILL, 1, params=(7.0,))
    made.put(Opcode.EQUAL, 2, (I8, 0), arg=2)
    made.put(Opcode.EQUAL, 3, (I8, 1), arg=3)
    made.put(Opcode.INDEX, -1, (I8, 1))
    made.put(Opcode.TAKE, 4, table=[1, 2, 3])
    made.put(Opcode.TAKE, 5, table=[4, 5, 6])
    return made


def test_segments_that_read_the_same_column_come_together() -> None:
    plan = schedule(writer().program())
    assert plan.instructions[:, DST].tolist() == [2, 0, 3, -1, 4, 5, 1, 1]
    assert plan.groups.tolist() == [0, 1, 6, 8]
    assert plan.instructions[:6, ROW].tolist() == [0, 1, 1, 1, -1, -1]


def test_segments_are_ordered_by_the_panels_that_they_write() -> None:
    moved = writer()
    moved.instructions = moved.instructions[3:] + moved.instructions[:3]
    plan = schedule(moved.program(), panel=2)
    assert plan.instructions[:, DST].tolist() == [0, 1, 1, 2, 3, -1, 4, 5]
    assert plan.groups.tolist() == [0, 3, 5, 8]


def test_the_last_instruction_of_a_cell_is_marked() -> None:
    made = Writer()
    made.put(Opcode.LOAD, 0, (F32, 0), params=(0.0,))
    made.put(Opcode.SCALE, 0, params=(1.0, 0.0))
    made.put(Opcode.STORE, 0, arg=0)
    made.put(Opcode.LOAD, 0, (F32, 1), params=(0.0,))
    made.put(Opcode.ADD, 0, arg=0)
    made.put(Opcode.LOAD, 1, (F32, 1), params=(0.0,))
    assert schedule(made.program()).instructions[:, LAST].tolist() == [0, 0, 0, 0, 1, 1]
    assert schedule(writer().program()).instructions[:, LAST].tolist() == [1, 1, 1, 0, 1, 1, 0, 1]


def test_parameters_are_stored_with_their_instruction() -> None:
    plan = schedule(writer().program())
    assert plan.scalars[-2:, 0].tolist() == plan.wide[-2:, 0].tolist() == [2.5, 7.0]
    assert plan.instructions[:3, ARG].tolist() == [2, 1, 3]


def test_adding_nothing_keeps_the_sign_of_zero() -> None:
    made = Writer()
    made.put(Opcode.LOAD, 0, (F32, 0), params=(0.0,))
    made.put(Opcode.SCALE, 0, params=(2.0, 0.0))
    assert np.signbit(schedule(made.program()).scalars[1, 1])


@pytest.mark.parametrize("panel", [0, 16])
def test_an_empty_program_has_no_groups(panel: int) -> None:
    plan = schedule(Writer().program(), panel)
    assert (plan.instructions.shape, plan.groups.tolist()) == ((0, 8), [0])
    assert (plan.scalars.shape, plan.wide.shape) == ((0, 3), (0, 2))


def test_a_parameter_too_large_for_float32_is_infinite() -> None:
    made = Writer()
    made.put(Opcode.LOAD, 0, (F32, 0), params=(1e300,))
    plan = schedule(made.program())
    assert (plan.instructions[0, OP], plan.scalars[0, 0], plan.wide[0, 0]) == (Opcode.LOAD, np.inf, 1e300)

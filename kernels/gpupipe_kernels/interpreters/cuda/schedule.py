"""Schedules: programs in the order and format that the device interpreter runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.formulas.angle import wave_parameters
from gpupipe_kernels.program.opcodes import READS_ACCUMULATOR, Field, Opcode
from gpupipe_kernels.program.program import PARAMS_READ, Program, has_wide_edges

OP, DST, BLOCK, ROW, ARG, LAST, LUT, SIZE = map(int, Field)
"""The values of `Field`, as indices for compiled code. Parameters are stored in separate tables here: instead of PARAM,
LAST is 1 if an instruction finishes its cell."""


@dataclass(frozen=True)
class Schedule:
    """A program ready to run.

    Attributes
    ----------
    instructions : ndarray of int32, shape (n, 8)
        The independent segments of the program, reordered; PARAM is `LAST`, and LUT of a float64 column's edges, or of
        a time zone, is their offset into the parameters.
    groups : ndarray of int32, shape (groups + 1,)
        Offsets of the runs of segments that start with the same source column or write to the same panel of columns.
    scalars : ndarray of float32, shape (n, 3)
        The parameters of each instruction, in the order of its formula.
    wide : ndarray of float64, shape (n, 2)
        The parameters of the instructions that subtract in float64.
    """

    instructions: npt.NDArray[np.int32]
    groups: npt.NDArray[np.int32]
    scalars: npt.NDArray[np.float32]
    wide: npt.NDArray[np.float64]


@lru_cache(maxsize=4)  # a program runs over one partition after another
def schedule(program: Program, panel: int = 0) -> Schedule:
    """Return the schedule of a program that `Program.check` accepts.

    Parameters
    ----------
    panel : int
        0 groups segments that start with the same source column; n > 0 orders them by the first column that they write,
        in groups of n columns.
    """
    table, cuts = program.instructions, program.segments
    key = first_columns(table, cuts) if panel else _sources(table, cuts)
    order = np.argsort(key, kind="stable")
    rows = [np.arange(cuts[i], cuts[i + 1]) for i in order]
    ordered = table[np.concatenate(rows)] if rows else table[:0].copy()
    wide = np.array([_parameters(row, program) for row in ordered.tolist()]).reshape(-1, 2)
    scalars = [_scalars(op, pair) for op, pair in zip(ordered[:, OP].tolist(), wide.tolist(), strict=True)]
    is_wide = np.array([has_wide_edges(row) for row in ordered.tolist()], bool)
    ordered[is_wide, LUT] = ordered[is_wide, Field.PARAM]
    ordered[:, LAST] = _is_last(ordered)
    groups = _groups(key[order] // max(1, panel), [len(part) for part in rows])
    with np.errstate(over="ignore"):  # NumPy converts such a parameter to infinity too
        singles = np.array(scalars).reshape(-1, 3).astype(np.float32)
    return Schedule(ordered, groups, singles, wide)


def _sources(table: npt.NDArray[np.int32], cuts: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return a number that identifies the first source column of each segment."""
    starts = table[cuts[:-1]].astype(np.int64)
    key: npt.NDArray[np.int64] = starts[:, BLOCK] << 32 | starts[:, ROW]
    return key


def first_columns(table: npt.NDArray[np.int32], cuts: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return the first column that each part of an instruction table writes; `cuts` are the offsets of the parts."""
    columns = np.where(table[:, DST] < 0, np.int64(2**31 - 1), table[:, DST])
    first: npt.NDArray[np.int64] = np.minimum.reduceat(columns, cuts[:-1]) if len(cuts) > 1 else columns[:0]
    return first


def _groups(key: npt.NDArray[np.int64], sizes: list[int]) -> npt.NDArray[np.int32]:
    """Return the offsets of the runs of segments with equal keys."""
    ends = np.cumsum([0, *sizes], dtype=np.int32)
    last = np.append(key[1:] != key[:-1], True)[: len(key)]
    return np.append(ends[:1], ends[1:][last])


def _is_last(table: npt.NDArray[np.int32]) -> Any:
    """Return the flags of instructions that finish the accumulator: the next instruction does not use it."""
    ops = table[:, OP]
    goes_on = np.append(np.isin(ops, sorted(READS_ACCUMULATOR)), False)[1:]
    return (table[:, DST] >= 0) & (ops != Opcode.STORE) & ~goes_on


def _parameters(row: list[int], program: Program) -> list[float]:
    n = PARAMS_READ.get(Opcode(row[Field.OP]), 0)
    values: list[float] = program.params[row[Field.PARAM] : row[Field.PARAM] + n].tolist()
    return values + [0.0] * (2 - n)


def _scalars(op: int, pair: list[float]) -> tuple[float, float, float]:
    first, second = pair
    if op == Opcode.SINE:
        return wave_parameters(first, second)
    # x + -0.0 is x for every x; adding 0.0 would change the sign of -0.0.
    return first, -0.0 if op == Opcode.SCALE and second == 0.0 else second, 0.0

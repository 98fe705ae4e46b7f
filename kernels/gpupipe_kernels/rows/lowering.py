"""Programs in register form, for a single row or a few.

The interpreters of whole tables run one instruction over many rows. For one row, that is one NumPy call per
instruction. Here the stack machine becomes a register machine: each value has its own register, so instructions can be
reordered, and all equal instructions whose operands are ready run as one call over their registers.

Some functions have different last digits in NumPy and in compiled code (`LIBRARY`). The batch path uses NumPy's, so
these always run in NumPy. They divide the program into rounds: the exact instructions of a round need only results of
library instructions of earlier rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.program.opcodes import OPERANDS, PICKS_ZONE, READS_ZONE, WRITES_INDEX, Field, Opcode
from gpupipe_kernels.program.program import Call, Program, n_params
from gpupipe_kernels.rows.records import DOUBLE, KIND_OF_BLOCK, RecordLayout

LIBRARY = frozenset({Opcode.LOG1P, Opcode.SINE, Opcode.HAVERSINE, Opcode.BEARING, Opcode.YEO_JOHNSON, Opcode.CALL})
"""Instructions that only NumPy, or a user's kernel, computes with the digits of the batch path."""

READS_INDEX = frozenset({Opcode.INDEX_PAIR, Opcode.TAKE, *PICKS_ZONE})

# Columns of the table of compiled code.
OP, KIND, DST, X, Y, ARG, LUT, SIZE = range(8)
FINITE = len(Opcode)  # the second half of LOG1P: infinite becomes NaN

Positions = Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class LoweredInstruction:
    """An instruction of the register machine.

    Attributes
    ----------
    op : int
        An `Opcode`, or `FINITE`.
    kind : int
        Kind of the source cell; -1 without one.
    cell, other : int
        Positions of the source cells among those of their kind.
    operands : tuple of int
        Value registers that it reads, in the order of the formula.
    index : int
        Index register that it reads; -1 for none.
    dst : int
        Register that it writes: an index register if `writes_index`, else a value register.
    arg, lut, size : int
        As in the program.
    params : tuple of float
        Of a bin of float64 cells, its edges; of a local time, the table of the time zone or time zones.
    call : Call, optional
        The user's kernel of a CALL.
    """

    op: int
    kind: int = -1
    cell: int = 0
    other: int = 0
    operands: tuple[int, ...] = ()
    index: int = -1
    dst: int = -1
    arg: int = 0
    lut: int = 0
    size: int = 0
    params: tuple[float, ...] = ()
    call: Call | None = None

    @property
    def writes_index(self) -> bool:
        """True if the result is an index."""
        return self.op in WRITES_INDEX

    @property
    def has_wide_edges(self) -> bool:
        """True if its parameters are the edges that a float64 cell is compared with, or time zones."""
        return self.op in READS_ZONE or (self.op == Opcode.INDEX_BIN and self.kind == DOUBLE)

    @property
    def is_library(self) -> bool:
        """True if it must run in NumPy."""
        return self.op in LIBRARY


@dataclass(frozen=True)
class InstructionGroup:
    """Equal instructions that do not depend on each other; their results are consecutive registers.

    Attributes
    ----------
    members : tuple of LoweredInstruction
    start, stop : int
        Positions of the members in the lowered program.
    """

    members: tuple[LoweredInstruction, ...]
    start: int
    stop: int

    @property
    def is_library(self) -> bool:
        """True if it must run in NumPy."""
        return self.members[0].is_library


@dataclass(frozen=True)
class LoweredProgram:
    """A program in register form.

    Attributes
    ----------
    groups : tuple of InstructionGroup
        In the order of execution.
    outputs : array of int, shape (columns,)
        The value register of each column of the matrix.
    luts : array of float32
    """

    groups: tuple[InstructionGroup, ...]
    n_registers: int
    n_indices: int
    outputs: npt.NDArray[np.intp]
    luts: npt.NDArray[np.float32]

    @property
    def instructions(self) -> list[LoweredInstruction]:
        """All instructions, in the order of execution."""
        return list(chain.from_iterable(group.members for group in self.groups))

    def table(
        self, layout: RecordLayout
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the instructions for compiled code: int32 (n, 8), float32 (n, 2) and float64 (n, 2) parameters, edges.

        Positions of cells are those in the flat array of their type; LUT of float64 tables is their offset among these.
        """
        rows = []
        wide = []
        edges = list[float]()
        for each in self.instructions:
            start = layout.starts[each.kind] if each.kind >= 0 else 0
            x = start + each.cell if each.kind >= 0 else each.operands[0] if each.operands else each.index
            y = each.index if each.kind >= 0 else (*each.operands, 0, 0)[1]
            y = start + each.other if each.op == Opcode.BETWEEN else y
            lut = len(edges) if each.has_wide_edges else each.lut
            edges += each.params if each.has_wide_edges else ()
            rows.append([each.op, each.kind, each.dst, x, y, each.arg, lut, each.size])
            wide.append([*each.params, 0.0, 0.0][:2])
        doubles = np.array(wide, np.float64).reshape(-1, 2)
        with np.errstate(over="ignore"):
            narrow = doubles.astype(np.float32)
        return np.array(rows, np.int32).reshape(-1, 8), narrow, doubles, np.array(edges, np.float64)


def lower(program: Program, positions: Positions) -> LoweredProgram:
    """Return the register form of a program that `Program.check` accepts.

    Parameters
    ----------
    program : Program
        For rows that were not fitted: the fold of every row is 0.
    positions : mapping of (block, row) to int
        Position of each source column among the cells of its kind.
    """
    instructions, outputs = _unstack(program, positions)
    return _ordered(instructions, outputs, program.luts)


def _unstack(program: Program, positions: Positions) -> tuple[list[LoweredInstruction], list[int]]:
    """Return the instructions with one register per value, in program order, and the register of each column."""
    made: list[LoweredInstruction] = []
    outputs = [-1] * program.n_columns
    stack: list[int] = []
    accumulator = index = n_values = n_indices = -1

    for row in program.instructions.tolist():
        op = Opcode(row[Field.OP])
        if op is Opcode.STORE:
            stack.append(accumulator)
            continue
        if op is Opcode.INDEX_FOLD:  # fold 0 is the full statistics
            continue
        lowered = _source(row, op, program, positions)
        if op in WRITES_INDEX:
            n_indices += 1
            lowered = replace(lowered, index=index if op in READS_INDEX else -1, dst=n_indices)
            index = n_indices
        else:
            n_operands = lowered.call.n_inputs if lowered.call is not None else OPERANDS.get(op, 1)
            takes = 0 if lowered.kind >= 0 or op is Opcode.TAKE else n_operands
            operands = (*stack[len(stack) - takes + 1 :], accumulator) if takes else ()
            if takes > 1:
                del stack[len(stack) - takes + 1 :]
            n_values += 1
            lowered = replace(lowered, operands=operands, index=index if op in READS_INDEX else -1, dst=n_values)
            outputs[row[Field.DST]] = accumulator = n_values
        made.append(lowered)
        if op is Opcode.LOG1P:
            n_values += 1
            made.append(LoweredInstruction(FINITE, operands=(accumulator,), dst=n_values))
            outputs[row[Field.DST]] = accumulator = n_values
    return made, outputs


def _source(row: list[int], op: Opcode, program: Program, positions: Positions) -> LoweredInstruction:
    _, _, block, source, arg, param, lut, size = row
    params = tuple(program.params[param : param + n_params(row)].tolist())
    if op is Opcode.SCALE and params[1] == 0.0:
        params = params[0], -0.0  # x + -0.0 is x for every x; adding 0.0 would change the sign of -0.0
    return LoweredInstruction(
        op,
        KIND_OF_BLOCK[block] if block >= 0 else -1,
        positions[block, source] if block >= 0 else 0,
        positions[block, arg] if op is Opcode.BETWEEN else 0,
        arg=arg,
        lut=lut,
        size=size,
        params=params,
        call=program.calls[size] if op is Opcode.CALL else None,
    )


def _ordered(
    instructions: list[LoweredInstruction], outputs: list[int], luts: npt.NDArray[np.float32]
) -> LoweredProgram:
    """Return the program in groups: by round, then exact before library, then by depth in the round."""
    of_value: dict[int, tuple[int, int]] = {}  # round and depth from which a register can be read
    of_index: dict[int, tuple[int, int]] = {}
    keys = []
    for each in instructions:
        needed = [of_value[operand] for operand in each.operands]
        needed += [of_index[each.index]] if each.index >= 0 else []
        turn, depth = max(needed, default=(0, 0))
        keys.append((turn, each.is_library, 0 if each.is_library else depth, *_kind_of_work(each)))
        ready = (turn + 1, 0) if each.is_library else (turn, depth + 1)
        (of_index if each.writes_index else of_value)[each.dst] = ready
    order = sorted(range(len(instructions)), key=keys.__getitem__)
    values: dict[int, int] = {}
    indices: dict[int, int] = {}
    groups: list[InstructionGroup] = []
    for _, positions in groupby(order, key=keys.__getitem__):
        members = []
        for position in positions:
            each = instructions[position]
            renumbered = indices if each.writes_index else values
            renumbered[each.dst] = len(renumbered)
            members.append(
                replace(
                    each,
                    dst=renumbered[each.dst],
                    operands=tuple(values[operand] for operand in each.operands),
                    index=indices[each.index] if each.index >= 0 else -1,
                )
            )
        start = groups[-1].stop if groups else 0
        groups.append(InstructionGroup(tuple(members), start, start + len(members)))
    registers = np.array([values[register] for register in outputs], np.intp)
    return LoweredProgram(tuple(groups), len(values), len(indices), registers, luts)


def _kind_of_work(each: LoweredInstruction) -> tuple[Any, ...]:
    """Return what must be equal for instructions to run as one call."""
    part = each.arg if each.op in (Opcode.PART, Opcode.INDEX_PART, *READS_ZONE) else 0
    call = each.size if each.op == Opcode.CALL else 0
    zone = each.params if each.op in READS_ZONE else ()
    return int(each.op), each.kind, part, call, zone

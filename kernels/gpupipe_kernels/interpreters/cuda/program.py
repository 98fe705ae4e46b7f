"""Programs in device memory, in the format that the kernels run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.device import arrays
from gpupipe_kernels.interpreters.cuda.loops import PANEL, Order
from gpupipe_kernels.interpreters.cuda.opcodes import LINE, device_table
from gpupipe_kernels.interpreters.cuda.schedule import ARG, LUT, OP, SIZE, Schedule, first_columns, schedule
from gpupipe_kernels.program.opcodes import READS_ZONE, Opcode
from gpupipe_kernels.program.program import Program, has_wide_edges
from gpupipe_kernels.typing import DeviceArray

MOST_TABLE_CELLS = 2_048  # 8 KiB of shared memory per block, which reduces the resident blocks of no device


@dataclass(frozen=True)
class DeviceTables:
    """A schedule as kernel arguments, uploaded at the first launch.

    Attributes
    ----------
    lines : ndarray of int32, shape (n, 16)
        Its instructions and their parameters: see `opcodes.device_table`.
    parts : ndarray of int32, shape (parts, 4)
        Its groups or panels: see `loops`.
    luts : ndarray of float32
        Lookup tables.
    """

    lines: npt.NDArray[np.int32]
    parts: npt.NDArray[np.int32]
    luts: npt.NDArray[np.float32]

    @cached_property
    def arguments(self) -> tuple[DeviceArray, ...]:
        """The three arrays in device memory, each 1-D."""
        tables = (self.lines, self.parts, self.luts)
        return tuple(arrays.upload(np.ascontiguousarray(array).reshape(-1)) for array in tables)

    @property
    def n_bytes(self) -> int:
        """Bytes uploaded so far."""
        return sum(array.nbytes for array in self.arguments) if "arguments" in vars(self) else 0


class DeviceProgram:
    """A program in device memory: uploaded once, run over many tables.

    Parameters
    ----------
    program : Program
        Its tables are uploaded for each memory order when a matrix in that order is first written.
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    def tables(self, order: Order) -> DeviceTables:
        """Return the tables for a memory order of the matrix."""
        return self.by_source if order == "columns" else self.by_destination

    @cached_property
    def by_source(self) -> DeviceTables:
        """Tables for column-major matrices, grouped by the column read."""
        groups, plan, luts = _gather_tables(*_with_edges(schedule(self.program), self.program))
        return DeviceTables(device_table(plan), groups, luts)

    @cached_property
    def by_destination(self) -> DeviceTables:
        """Tables for row-major matrices, in panels of the columns written."""
        plan, luts = _with_edges(schedule(self.program, PANEL), self.program)
        left = first_columns(plan.instructions, plan.groups) // PANEL * PANEL
        begin, end = LINE * plan.groups[:-1], LINE * plan.groups[1:]
        panels = np.stack([begin, end, left, np.zeros_like(left)], axis=1).astype(np.int32)
        return DeviceTables(device_table(plan), panels, luts)

    @cached_property
    def depth(self) -> int:
        """Number of stack registers that the program uses."""
        stores = self.program.instructions[self.program.instructions[:, OP] == Opcode.STORE]
        return int(stores[:, ARG].max(initial=-1)) + 1

    @property
    def n_bytes(self) -> int:
        """Bytes uploaded so far."""
        return sum(made.n_bytes for made in vars(self).values() if isinstance(made, DeviceTables))


@lru_cache(maxsize=8)  # a program runs over one partition after another, and a leaderboard has a few views
def device_program(program: Program) -> DeviceProgram:
    """Return a program in device memory; a recently used program is not uploaded again."""
    return DeviceProgram(program)


def _with_edges(plan: Schedule, program: Program) -> tuple[Schedule, npt.NDArray[np.float32]]:
    """Return a schedule with the float64 tables in its lookup tables, two words for each entry, and these tables.

    Those of time zones are converted to int64.
    """
    instructions, tables = plan.instructions.copy(), [program.luts]
    places = dict[tuple[int, int], int]()
    for row in instructions:
        if has_wide_edges(row):
            span = int(row[LUT]), int(row[LUT] + row[SIZE])
            if span not in places:
                places[span] = sum(map(len, tables))
                table = program.params[slice(*span)]
                tables.append((table.astype(np.int64) if row[OP] in READS_ZONE else table).view(np.float32))
            row[LUT] = places[span]
    return replace(plan, instructions=instructions), np.concatenate(tables)


def _gather_tables(
    plan: Schedule, luts: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int32], Schedule, npt.NDArray[np.float32]]:
    """Return the groups of a schedule, the schedule with contiguous lookup tables per group, and the tables.

    A group has the positions in the table of its first instruction and of the one after its last; its first lookup
    entry and the number of entries, 0 if they do not fit into shared memory.
    """
    instructions, pieces, end = plan.instructions.copy(), [np.empty(0, np.float32)], 0
    groups = []
    for start, stop in zip(plan.groups.tolist(), plan.groups[1:].tolist(), strict=False):
        first, places = end, {}
        for row in instructions[start:stop]:
            if row[OP] in (Opcode.TAKE, Opcode.INDEX_BIN, *READS_ZONE):
                table = int(row[LUT]), int(row[SIZE]) * (2 if has_wide_edges(row) else 1)
                if table not in places:
                    places[table] = end
                    pieces.append(luts[table[0] : table[0] + table[1]])
                    end += table[1]
                row[LUT] = places[table]
        groups.append((LINE * start, LINE * stop, first, end - first if end - first <= MOST_TABLE_CELLS else 0))
    return np.array(groups, np.int32).reshape(-1, 4), replace(plan, instructions=instructions), np.concatenate(pieces)

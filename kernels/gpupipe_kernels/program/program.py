"""The feature program: a table of instructions and its lookup tables, numeric only and device-independent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.program.opcodes import (
    BLOCKS,
    N_REGISTERS,
    OPERANDS,
    PART_SIZES,
    PICKS_ZONE,
    READS_ACCUMULATOR,
    READS_ZONE,
    STARTS_SEGMENT,
    WRITES_INDEX,
    CalendarPart,
    Field,
    Opcode,
)
from gpupipe_kernels.program.time_zones import is_zone, split_zones

CODE_BLOCKS = frozenset({0, 1, 2})
NUMBER_BLOCKS = frozenset({3, 4})
WIDE_BLOCK = 4
TIME_BLOCK = 5
NO_TABLE = -1  # instead of an offset into the lookup tables
BLOCKS_READ = {
    **dict.fromkeys((Opcode.EQUAL, Opcode.INDEX, Opcode.INDEX_PAIR), CODE_BLOCKS),
    **dict.fromkeys((Opcode.LOAD, Opcode.INDEX_BIN), NUMBER_BLOCKS),
    **dict.fromkeys(
        (Opcode.ELAPSED, Opcode.PART, Opcode.INDEX_PART, Opcode.BETWEEN, *READS_ZONE), frozenset({TIME_BLOCK})
    ),
    Opcode.IS_NULL: NUMBER_BLOCKS | {TIME_BLOCK},
}
READS_LUTS = frozenset({Opcode.TAKE, Opcode.INDEX_BIN})
PARAMS_READ = {
    Opcode.LOAD: 1, Opcode.ELAPSED: 2, Opcode.FILL: 1, Opcode.CLIP: 2, Opcode.SCALE: 2, Opcode.SINE: 2,
    Opcode.HAVERSINE: 2, Opcode.BEARING: 2, Opcode.YEO_JOHNSON: 1, Opcode.BETWEEN: 1,
}  # fmt: skip

ARRAYS = (("instructions", "int32", 2), ("params", "float64", 1), ("luts", "float32", 1))
MOST_A_COLUMN = 1024  # instructions per column; the longest chain of ops has dozens


class Call(Protocol):
    """A user kernel called by a program."""

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def n_inputs(self) -> int:
        """Number of float32 arguments."""

    @property
    def host(self) -> Callable[..., Any]:
        """The formula as a NumPy ufunc of `n_inputs` float32 arrays, including its null policy."""

    @property
    def formula(self) -> Callable[..., Any]:
        """The formula as a scalar function for compiled code on host or device, including its null policy."""


@dataclass(frozen=True, eq=False)
class Program:
    """A fitted feature program. Its tables are immutable, so data derived from them can be cached between runs.

    Attributes
    ----------
    instructions : ndarray of int32, shape (n, 8)
        One instruction per row; the columns are `gpupipe_kernels.program.opcodes.Field`.
    params : ndarray of float64, shape (p,)
        Scalars referenced by instructions.
    luts : ndarray of float32, shape (l,)
        Lookup tables and bin edges, concatenated.
    n_columns : int
        Width of the matrix that the program writes.
    calls : tuple of Call
        The user kernels, which ``CALL`` instructions refer to by position.
    """

    instructions: npt.NDArray[np.int32]
    params: npt.NDArray[np.float64]
    luts: npt.NDArray[np.float32]
    n_columns: int
    calls: tuple[Call, ...] = ()

    def __repr__(self) -> str:
        tables, calls = f"{len(self.luts):,} values in tables", f"{len(self.calls)} calls"
        return f"Program({len(self.instructions)} instructions, {tables}, {calls}, {self.n_columns} columns)"

    @property
    def segments(self) -> npt.NDArray[np.int32]:
        """Offsets of the independent segments, shape (segments + 1,): segment i is instructions[s[i]:s[i + 1]]."""
        starts, depth = [], 0
        for i, row in enumerate(self.instructions.tolist()):
            op = Opcode(row[Field.OP])
            if depth == 0 and op in STARTS_SEGMENT:
                starts.append(i)
            depth += self._pushes(op, row)
        return np.array([*starts, len(self.instructions)], np.int32)

    def _pushes(self, op: Opcode, row: list[int]) -> int:
        """Return the change in stack height by an instruction; negative if it pops."""
        return 1 if op is Opcode.STORE else 1 - self._operands(op, row)

    def _operands(self, op: Opcode, row: list[int]) -> int:
        if op is Opcode.CALL:
            if not 0 <= row[Field.SIZE] < len(self.calls):
                raise ValueError(f"CALL refers to kernel {row[Field.SIZE]}, but the program has {len(self.calls)}")
            return self.calls[row[Field.SIZE]].n_inputs
        return OPERANDS.get(op, 1)

    @property
    def sources(self) -> set[tuple[int, int]]:
        """Block and row of each column that the program reads."""
        rows = [row for row in self.instructions.tolist() if row[Field.BLOCK] >= 0]
        others = {(row[Field.BLOCK], row[Field.ARG]) for row in rows if row[Field.OP] == Opcode.BETWEEN}
        return others | {(row[Field.BLOCK], row[Field.ROW]) for row in rows}

    @property
    def has_folds(self) -> bool:
        """True if the values of a row depend on its fold."""
        return bool((self.instructions[:, Field.OP] == Opcode.INDEX_FOLD).any())

    @property
    def n_bytes(self) -> int:
        """Size of all tables in bytes."""
        return int(self.instructions.nbytes + self.params.nbytes + self.luts.nbytes)

    def moved(self, places: Mapping[tuple[int, int], tuple[int, int]]) -> Program:
        """Return the program for a table with other column positions.

        Parameters
        ----------
        places : mapping of (block, row) to (block, row)
            Maps the old position of each source column to the new one.
        """
        if all(old == new for old, new in places.items()):
            return self
        rows = self.instructions.tolist()
        for row in rows:
            if row[Field.BLOCK] >= 0:
                if row[Field.OP] == Opcode.BETWEEN:
                    row[Field.ARG] = places[row[Field.BLOCK], row[Field.ARG]][1]
                row[Field.BLOCK], row[Field.ROW] = places[row[Field.BLOCK], row[Field.ROW]]
        return replace(self, instructions=np.array(rows, np.int32).reshape(self.instructions.shape))

    def of_columns(self, columns: Sequence[int]) -> Program:
        """Return the program that writes some columns only, with the same values.

        Parameters
        ----------
        columns : sequence of int
            Distinct columns of this program; column i of the result is ``columns[i]``.
        """
        kept = self._instructions_of(frozenset(columns))
        places = {column: place for place, column in enumerate(columns)}
        params: list[float] = []
        spans: dict[tuple[int, int], int] = {}  # instructions share the table of a time zone
        luts: list[npt.NDArray[np.float32]] = []
        calls: list[Call] = []
        n_luts = 0
        for row in kept:
            op = Opcode(row[Field.OP])
            param = row[Field.PARAM]
            lut = row[Field.LUT]
            size = row[Field.SIZE]
            span = param, n_params(row)
            if span not in spans:
                spans[span] = len(params)
                params += self.params[param : param + span[1]].tolist()
            row[Field.PARAM] = spans[span]
            row[Field.LUT] = NO_TABLE if op in READS_ZONE else n_luts
            if op in READS_LUTS and not has_wide_edges(row):
                luts.append(self.luts[lut : lut + size])
                n_luts += size
            if op is Opcode.CALL:
                call = self.calls[size]
                calls += [] if call in calls else [call]
                row[Field.SIZE] = calls.index(call)
            if op not in WRITES_INDEX:
                row[Field.DST] = places[row[Field.DST]]
        return Program(
            np.array(kept, np.int32).reshape(-1, len(Field)),
            np.array(params, np.float64),
            np.concatenate(luts) if luts else np.empty(0, np.float32),
            len(columns),
            tuple(calls),
        )

    def _instructions_of(self, columns: frozenset[int]) -> list[list[int]]:
        """Return the instructions that compute `columns`, with those that write the index for them."""
        kept: list[list[int]] = []
        is_looked_up = False  # whether a later instruction, up to the next index, reads the index
        for row in reversed(self.instructions.tolist()):
            op = Opcode(row[Field.OP])
            if row[Field.DST] in columns if op not in WRITES_INDEX else is_looked_up:
                kept.append(row)
                is_looked_up |= op in (Opcode.TAKE, Opcode.ZONED_PART)
            is_looked_up &= op not in STARTS_SEGMENT
        return kept[::-1]

    def check(self, block_rows: Mapping[int, int], max_codes: Mapping[tuple[int, int], int]) -> None:
        """Check that no instruction can read or write out of bounds, because programs from files are untrusted.

        Parameters
        ----------
        block_rows : mapping of int to int
            Number of rows of each block of the table that the program will read.
        max_codes : mapping of (block, row) to int
            Number of codes of each code column.

        Raises
        ------
        ValueError
            If an instruction reads or writes out of bounds, or uses a value computed for another column; the message
            contains its number. Also if a column is written by no segment, or by several, whose order is undefined.
        """
        reach = 0  # one more than the largest possible value of the index register
        depth = 0  # registers in use
        held = -1  # the column whose cell is the accumulator
        segment = 0  # where it started
        written: dict[int, int] = {}  # the segment of each column
        if self.instructions.ndim != 2 or self.instructions.shape[1] != len(Field):
            shape = self.instructions.shape
            raise ValueError(f"expected an instruction table of {len(Field)} columns, got shape {shape}")
        if len(self.instructions) > MOST_A_COLUMN * self.n_columns:
            raise ValueError(f"{len(self.instructions):,} instructions for {self.n_columns:,} columns")
        for i, row in enumerate(self.instructions.tolist()):
            try:
                op = Opcode(row[Field.OP])
                if op in STARTS_SEGMENT:
                    reach = 0
                    if depth == 0:
                        held, segment = -1, i
                reach = self._check_one(op, row, reach, block_rows, max_codes)
                held = self._check_column(op, row[Field.DST], held, depth)
                depth = self._check_registers(op, row, depth)
                if held >= 0 and written.setdefault(held, segment) != segment:
                    raise ValueError(f"{op.name} writes column {held}, which another segment already writes")
            except ValueError as error:
                raise ValueError(f"instruction {i}: {error}") from None
        if depth:
            raise ValueError(f"the program ends with {depth} values on the stack")
        if len(written) < self.n_columns:
            raise ValueError(f"the program writes {len(written)} of {self.n_columns} columns")

    def _check_column(self, op: Opcode, dst: int, held: int, depth: int) -> int:
        """Return the column whose cell is the accumulator after an instruction.

        Some interpreters keep it in the matrix, others in a register: they would differ if columns were mixed.
        """
        if op in WRITES_INDEX:
            return held
        if (op in READS_ACCUMULATOR or depth) and dst != held:
            of = "nothing" if held < 0 else f"column {held}"
            raise ValueError(f"{op.name} for column {dst} uses a value that was computed for {of}")
        return dst

    def _check_registers(self, op: Opcode, row: list[int], depth: int) -> int:
        """Return the height of the stack after an instruction."""
        takes = 0 if op is Opcode.STORE else self._operands(op, row) - 1
        if takes > depth or ((op is Opcode.STORE or takes or op is Opcode.CALL) and row[Field.ARG] != depth - takes):
            raise ValueError(f"{op.name} pops {takes} registers from {row[Field.ARG]} on, but {depth} are in use")
        if depth + self._pushes(op, row) > N_REGISTERS:
            raise ValueError(f"expected at most {N_REGISTERS} registers in use")
        return depth + self._pushes(op, row)

    def _check_one(
        self,
        op: Opcode,
        row: list[int],
        reach: int,
        block_rows: Mapping[int, int],
        max_codes: Mapping[tuple[int, int], int],
    ) -> int:
        _, dst, block, source, arg, param, lut, size = row
        allowed = BLOCKS_READ.get(op, frozenset())
        if allowed and (block not in allowed or not 0 <= source < block_rows.get(block, 0)):
            raise ValueError(f"{op.name} reads a column that does not exist")
        if not allowed and block != -1:
            raise ValueError(f"{op.name} reads no column")
        if not (dst == -1 if op in WRITES_INDEX else 0 <= dst < self.n_columns):
            raise ValueError(f"{op.name} writes outside the matrix")
        if (n := n_params(row)) and not 0 <= param <= len(self.params) - n:
            raise ValueError(f"{op.name} reads outside the parameters")
        if op in READS_LUTS and (size < 0 or not (has_wide_edges(row) or 0 <= lut <= len(self.luts) - size)):
            raise ValueError(f"{op.name} reads outside the lookup tables")
        if op is Opcode.BETWEEN and not 0 <= arg < block_rows.get(block, 0):
            raise ValueError("BETWEEN reads a column that does not exist")
        if op in (Opcode.TAKE, *PICKS_ZONE) and reach == 0:
            raise ValueError(f"{op.name} has no index")
        if op is Opcode.TAKE and reach > size:
            raise ValueError(f"TAKE looks up index {reach - 1} in a table of {size}")
        if op in READS_ZONE:
            table, picks = self.params[param : param + max(0, size)], op in PICKS_ZONE
            zones = split_zones(table) if picks else [table]
            if not zones or not all(is_zone(zone, picks) for zone in zones):
                raise ValueError(f"{op.name} has a malformed time zone")
            if picks and reach > len(zones):
                raise ValueError(f"{op.name} looks up time zone {reach - 1} in a table of {len(zones)}")
        if op in (Opcode.PART, Opcode.INDEX_PART, *READS_ZONE):
            part = CalendarPart(arg)
            if op in READS_ZONE & WRITES_INDEX and part not in PART_SIZES:
                raise ValueError(f"{part.name} cannot be an index")
            if op is Opcode.INDEX_PART and size < PART_SIZES.get(part, 2**31):
                raise ValueError(f"{part.name} cannot index a table of {size}")
        if op is Opcode.INDEX:
            return max_codes[block, source]
        if op is Opcode.INDEX_PAIR:
            if max_codes[block, source] > arg:
                raise ValueError("INDEX_PAIR has too small a stride")
            return reach * arg
        if op is Opcode.INDEX_FOLD:
            return reach
        if op is Opcode.INDEX_PART:
            return size + 1
        if op in READS_ZONE & WRITES_INDEX:
            return PART_SIZES[part] + 1
        if op is Opcode.INDEX_BIN:
            return arg + size + 1
        return reach

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the program as named arrays, for serialisation."""
        return {"instructions": self.instructions, "params": self.params, "luts": self.luts}

    @staticmethod
    def from_arrays(arrays: Mapping[str, npt.NDArray[Any]], n_columns: int, calls: tuple[Call, ...] = ()) -> Program:
        """Return the program stored in named arrays.

        Raise ValueError if an array is absent or has an unexpected dtype or number of dimensions.
        """
        for name, dtype, n_dimensions in ARRAYS:
            if name not in arrays or arrays[name].dtype != dtype or arrays[name].ndim != n_dimensions:
                raise ValueError(f"expected {name} with dtype {dtype} and {n_dimensions} dimensions")
        instructions, params = _with_wide_edges(arrays["instructions"], arrays["params"], arrays["luts"])
        return Program(
            np.ascontiguousarray(instructions, np.int32),
            np.ascontiguousarray(params, np.float64),
            np.ascontiguousarray(arrays["luts"], np.float32),
            n_columns,
            calls,
        )


def has_wide_edges(row: Sequence[int]) -> bool:
    """Return whether the table of an instruction is in the parameters: edges of a float64 column, or time zones."""
    op = int(row[Field.OP])
    return bool(op in READS_ZONE or (op == Opcode.INDEX_BIN and row[Field.BLOCK] == WIDE_BLOCK))


def n_params(row: Sequence[int]) -> int:
    """Return the number of parameters of an instruction."""
    return row[Field.SIZE] if has_wide_edges(row) else PARAMS_READ.get(Opcode(row[Field.OP]), 0)


def _with_wide_edges(
    instructions: npt.NDArray[Any], params: npt.NDArray[Any], luts: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return instructions and parameters in which float64 columns are compared in float64, with the same bins.

    Earlier versions rounded column and edge to float32: ``float32(x) >= edge`` from the middle between the edge and the
    float32 below it on, or right after that middle if it rounds down.
    """
    moved = instructions.copy()
    for row in moved:
        lut, size = row[Field.LUT], row[Field.SIZE]
        is_bin = len(row) == len(Field) and row[Field.OP] == Opcode.INDEX_BIN and has_wide_edges(row)
        if is_bin and 0 <= lut <= len(luts) - max(size, 0):
            edges = luts[lut : lut + size]
            middle = (edges.astype(np.float64) + np.nextafter(edges, np.float32(-np.inf))) / 2
            row[Field.PARAM], row[Field.LUT] = len(params), NO_TABLE
            found = np.where(middle.astype(np.float32) >= edges, middle, np.nextafter(middle, np.inf))
            params = np.concatenate([params, found])
    return moved, params


def block_id(dtype: str) -> int:
    """Return the number of a block in an instruction."""
    return BLOCKS.index(dtype)

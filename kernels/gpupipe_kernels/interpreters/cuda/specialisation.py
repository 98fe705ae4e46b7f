"""Generation of a CUDA kernel for one program: the interpreter's steps unrolled, without dispatch.

The source depends only on the structure of a program: which op reads which column and writes which cell. Parameters,
lookup tables, codes and table sizes remain arguments, so a refit of the same configuration compiles nothing. Formulas
(`steps`) and arguments are those of the interpreter.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpupipe_kernels import code_cache
from gpupipe_kernels.interpreters.cuda import loops, steps
from gpupipe_kernels.interpreters.cuda.loops import ARGUMENTS, PARAMETERS, Order
from gpupipe_kernels.interpreters.cuda.opcodes import (
    ARG,
    LINE,
    LUT,
    OP,
    ROW,
    SIZE,
    TO,
    DeviceOpcode,
)
from gpupipe_kernels.interpreters.cuda.steps import ROWS_A_THREAD
from gpupipe_kernels.interpreters.cuda.vectors import rounded
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.program.program import Call

MOST_INSTRUCTIONS = 1_000  # Numba takes about 30 ms per instruction: a larger program would compile for minutes

# Seconds until a kernel runs, read from disk or compiled; compilation grows with the number of instructions.
LOAD_SECONDS = 0.1
COMPILE_SECONDS, COMPILE_SECONDS_AN_INSTRUCTION = 1.0, 0.03

SAVED_SECONDS_A_CELL: dict[Order, float] = {"columns": 7e-14, "rows": 3.7e-13}
"""Predicted by counting machine instructions for the GPU that gains most of those in `tools.machine_code.predictions`:
an H200 at 1.755 GHz interprets 128 rows of 20 columns in 4.4 ns (columns) or 5.1 ns (rows), and its memory takes 4.2
ns. So a kernel of 50 instructions pays after 3.6e13 or 6.8e12 cells; if its code is on disk, after 1.4e12 or 2.7e11. On
an H100, memory takes 6.0 ns and a kernel never pays."""

_COLUMN = "cells({block}, uint64({row}) * {block}_step + first, stride)"
_SOURCES = {"INT8": "i8", "INT16": "i16", "INT32": "i32", "FLOAT32": "f32", "FLOAT64": "f64", "INT64": "i64"}
_ACCUMULATORS = {
    DeviceOpcode.LOAD_FLOAT32: "each(difference, {cells}, {p0})",
    DeviceOpcode.LOAD_FLOAT64: "each(difference, {cells}, {w0})",
    DeviceOpcode.EQUAL_INT8: "each(is_equal, {cells}, {arg})",
    DeviceOpcode.EQUAL_INT16: "each(is_equal, {cells}, {arg})",
    DeviceOpcode.EQUAL_INT32: "each(is_equal, {cells}, {arg})",
    DeviceOpcode.IS_NULL_FLOAT32: "each(is_nan, {cells})",
    DeviceOpcode.IS_NULL_FLOAT64: "each(is_nan, {cells})",
    DeviceOpcode.IS_NULL_INT64: "each(is_nat, {cells})",
    DeviceOpcode.PART: "each(part_value, {cells}, int32({constant}))",
    DeviceOpcode.ELAPSED: "each(elapsed, {cells}, {w0}, {w1})",
    DeviceOpcode.BETWEEN: (
        "each_pair(between, {cells}, cells(i64, uint64({constant}) * i64_step + first, stride), {w0})"
    ),
    DeviceOpcode.TAKE: "each(table_entry, ix, luts, {lut}, {size})",
    DeviceOpcode.FILL: "each(fill, acc, {p0})",
    DeviceOpcode.SCALE: "each(scale, acc, {p0}, {p1})",
    DeviceOpcode.CLIP: "each(clip, acc, {p0}, {p1})",
    DeviceOpcode.LOG1P: "each(finite_log1p, acc)",
    DeviceOpcode.ADD: "each_pair(add, {r0}, acc)",
    DeviceOpcode.SUBTRACT: "each_pair(subtract, {r0}, acc)",
    DeviceOpcode.MULTIPLY: "each_pair(multiply, {r0}, acc)",
    DeviceOpcode.DIVIDE: "each_pair(divide, {r0}, acc)",
    DeviceOpcode.SINE: "each(wave, acc, {p0}, {p1}, {p2})",
    DeviceOpcode.YEO_JOHNSON: "each(finite_power, acc, {p0})",
    DeviceOpcode.HAVERSINE: "each_of_four(haversine, {r0}, {r1}, {r2}, acc, {p0}, {p1})",
    DeviceOpcode.BEARING: "each_of_four(initial_course, {r0}, {r1}, {r2}, acc, {p1})",
}
_INDICES = {
    DeviceOpcode.INDEX_INT8: "each(widen, {cells})",
    DeviceOpcode.INDEX_INT16: "each(widen, {cells})",
    DeviceOpcode.INDEX_INT32: "each(widen, {cells})",
    DeviceOpcode.INDEX_PAIR_INT8: "each_pair(pair, ix, {cells}, {arg})",
    DeviceOpcode.INDEX_PAIR_INT16: "each_pair(pair, ix, {cells}, {arg})",
    DeviceOpcode.INDEX_PAIR_INT32: "each_pair(pair, ix, {cells}, {arg})",
    DeviceOpcode.INDEX_BIN_FLOAT32: "each(bin_index, {cells}, luts, {lut}, {size}, {arg})",
    DeviceOpcode.INDEX_BIN_FLOAT64: "each(bin_index, {cells}, luts, {lut}, {size}, {arg})",
    DeviceOpcode.INDEX_PART: "each(part_index, {cells}, int32({constant}), {size})",
    DeviceOpcode.INDEX_FOLD: "each_pair(of_fold, ix, cells(fold, first, stride), {arg}) if has_fold else ix",
}
_PRODUCTS = frozenset({
    DeviceOpcode.MULTIPLY, DeviceOpcode.LOG1P, DeviceOpcode.SINE, DeviceOpcode.YEO_JOHNSON, DeviceOpcode.HAVERSINE,
    DeviceOpcode.BEARING, DeviceOpcode.CALL,
})  # fmt: skip
"""Instructions whose result may be a product, which must not be fused with the addition of another instruction: the
other interpreters round the result of each instruction."""
_READS_TIMES = (DeviceOpcode.PART, DeviceOpcode.ELAPSED, DeviceOpcode.BETWEEN, DeviceOpcode.INDEX_PART)


@dataclass(frozen=True)
class KernelSource:
    """The Python source of a kernel.

    Attributes
    ----------
    order : {"columns", "rows"}
    text : str
    """

    order: Order
    text: str

    @property
    def name(self) -> str:
        """Name of the function."""
        return f"specialised_{self.order}"

    @property
    def key(self) -> str:
        """The file name: the name and a hash of the text."""
        return f"{self.name}_{hashlib.sha256(self.text.encode()).hexdigest()[:16]}"


def column_source(lines: list[list[int]], groups: list[list[int]], calls: tuple[Call, ...]) -> KernelSource:
    """Return the kernel for a column-major matrix: each row of the grid runs a group of segments.

    Parameters
    ----------
    lines : list of lists of int
        See `opcodes.device_table`.
    groups : list of lists of int
        For each group: the positions in the table of its first instruction and of the one after its last.
    calls : tuple of Call
        The user kernels of the program.
    """
    body = []
    for number, (begin, end, *_) in enumerate(groups):
        body.append(f"{'if' if number == 0 else 'elif'} group == {number}:")
        for k in range(begin // LINE, end // LINE):
            body += _indented(_step(lines[k], k, calls))
            if lines[k][TO] >= 0:
                body += _indented([f"write(out, uint64({lines[k][TO]}) * column_step + first, stride, acc)"])
    return _source("columns", ["group = cuda.blockIdx.y"], [*_first_row(), *body])


def row_source(lines: list[list[int]], panels: list[list[int]], calls: tuple[Call, ...]) -> KernelSource:
    """Return the kernel for a row-major matrix: each block runs all segments, panel by panel.

    Parameters
    ----------
    panels : list of lists of int
        For each panel: the positions in the table of its first instruction and of the one after its last; its first
        column.
    """
    body = []
    for begin, end, left, _ in panels:
        filled = 0
        for k in range(begin // LINE, end // LINE):
            body += _step(lines[k], k, calls)
            if lines[k][TO] >= 0:
                place = lines[k][TO] - left
                filled |= 1 << place if place < loops.PANEL else 0
                body.append(f"put({place}, {left}, acc, shared, 0, lane, stride, out, first, row_step)")
        panel = f"shared, int32(0), {left}, int32({filled}), lane, start, end, out, row_step, is_aligned"
        body += ["cuda.syncthreads()", f"write_panel({panel})", "cuda.syncthreads()"]
    return _source("rows", ["shared = cuda.shared.array(0, numba.float32)"], [*_first_row(), *body])


def _source(order: Order, before: list[str], tile: list[str]) -> KernelSource:
    lanes = loops.THREADS[order]
    step = "column_step" if order == "columns" else "row_step"
    parameters = ", ".join(step if name == "step" else name for name in PARAMETERS)
    lines = [
        f"    lane, stride, n_tile_rows = cuda.threadIdx.x, uint64({lanes}), uint64({ROWS_A_THREAD * lanes})",
        "    acc, ix, tile = zeros(float32), zeros(int32), uint64(cuda.blockIdx.x)",
        *_indented(before),
        "    while tile * n_tile_rows < n_rows:",
        *_indented(_indented(tile)),
        "        tile += uint64(cuda.gridDim.x)",
    ]
    return KernelSource(order, "\n".join([f"def specialised_{order}({parameters}):", *lines, ""]))


def _first_row() -> list[str]:
    return [
        "start = tile_start(tile, n_tile_rows, n_rows)",
        "first, end = start + uint64(lane), min(start + n_tile_rows, n_rows)",
    ]


def _step(line: list[int], k: int, calls: tuple[Call, ...]) -> list[str]:
    """Return the statements of an instruction."""
    op, constant = DeviceOpcode(line[OP]), line[ARG]
    kind = "rounded" if op in _PRODUCTS and line[TO] < 0 else "float32"
    if op is DeviceOpcode.STORE:
        return [f"r{constant} = acc"]
    if op is DeviceOpcode.CALL:
        n = calls[line[SIZE]].n_inputs
        operands = [f"r{constant + i}" for i in range(n - 1)] + ["acc"]
        rows = [", ".join(f"{operand}[{j}]" for operand in operands) for j in range(ROWS_A_THREAD)]
        return ["acc = (" + ", ".join(f"{kind}(call_{line[SIZE]}({row}))" for row in rows) + ")"]
    argument = {name: f"table[uint64({LINE * k + at})]" for name, at in (("arg", ARG), ("size", SIZE))}
    argument |= {f"p{i}": f"number(table, uint64({LINE * k}), {i})" for i in range(3)}
    argument |= {f"w{i}": f"wide(table, uint64({LINE * k}), {i})" for i in range(2)}
    argument |= {f"r{i}": f"r{constant + i}" for i in range(3)}
    argument |= {"lut": f"uint64(table[uint64({LINE * k + LUT})])", "constant": str(constant)}
    argument["cells"] = _COLUMN.format(block=_block(op), row=line[ROW])
    if op in _INDICES:
        return ["ix = " + _INDICES[op].format(**argument)]
    # Already float32, except in the simulator, where a formula returns a Python number.
    return [f"acc = each({kind}, {_ACCUMULATORS[op].format(**argument)})"]


def _block(op: DeviceOpcode) -> str:
    """Return the name of the block that an opcode reads; an arbitrary name if it reads none."""
    return "i64" if op in _READS_TIMES else _SOURCES.get(op.name.rpartition("_")[2], "f32")


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@lru_cache(maxsize=64)
def compile_source(source: KernelSource, calls: tuple[Call, ...]) -> DeviceLoop:
    """Return the kernel of a source; it is compiled at its first launch.

    Its code is cached on disk unless it contains user kernels, which are not part of its text.
    """
    names: dict[str, Any] = {**vars(steps), **vars(loops), "rounded": rounded, "__name__": __name__}
    names |= {f"call_{i}": call.formula for i, call in enumerate(calls)}
    exec(compile(source.text, f"<{source.key}>", "exec"), names)
    return DeviceLoop(names[source.name], *ARGUMENTS, key=None if calls else source.key)


def could_pay(order: Order, n_instructions: int, n_cells: int) -> bool:
    """Return whether a kernel would pay off after `n_cells` interpreted cells if its code were on disk."""
    return n_instructions <= MOST_INSTRUCTIONS and n_cells * SAVED_SECONDS_A_CELL[order] > LOAD_SECONDS


def is_worth_it(source: KernelSource, n_instructions: int, n_cells: int) -> bool:
    """Return whether a kernel pays off after `n_cells` interpreted cells.

    The rule of ski rental: buy when the rent paid has reached the price, which costs at most twice the optimum (Karlin,
    Manasse, Rudolph, Sleator, "Competitive snoopy caching", 1988).
    """
    compiling = COMPILE_SECONDS + COMPILE_SECONDS_AN_INSTRUCTION * n_instructions
    return could_pay(source.order, n_instructions, n_cells) and (
        n_cells * SAVED_SECONDS_A_CELL[source.order] > compiling or code_cache.is_kept(source.key)
    )

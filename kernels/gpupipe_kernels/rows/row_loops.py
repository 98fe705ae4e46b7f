"""The exact instructions of a row program as a compiled loop, without the interpreter lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float32, int64

from gpupipe_kernels.formulas.calendar32 import part
from gpupipe_kernels.formulas.cells import NAN, bin_of, clip, elapsed, fill, finite, flag, local_time, zone_bounds
from gpupipe_kernels.formulas.cells import between as time_between
from gpupipe_kernels.launch import host_block, read_only
from gpupipe_kernels.program.opcodes import NAT, Opcode
from gpupipe_kernels.rows.lowering import ARG, DST, FINITE, KIND, LUT, OP, SIZE, X, Y
from gpupipe_kernels.rows.records import DOUBLE, SINGLE

if TYPE_CHECKING:
    from gpupipe_kernels.rows.records import Cells, RecordLayout
    from gpupipe_kernels.rows.row_program import Registers, Step
    from gpupipe_kernels.typing import HostArray


def compiled_step(
    table: tuple[Any, Any, Any, Any], luts: HostArray, layout: RecordLayout, start: int, stop: int
) -> Step:
    """Return the step that runs the instructions from `start` to `stop`, exclusive, of a lowered program's `table`."""
    instructions, narrow, wide, edges = map(read_only, table)
    tables = read_only(luts)
    width = layout.dtype.itemsize // 8

    def run(cells: Cells, registers: Registers) -> None:
        _run_exact(
            instructions,
            narrow,
            wide,
            edges,
            tables,
            cells.single,
            cells.double,
            cells.times,
            cells.codes,
            width,
            registers.values,
            registers.indices,
            start,
            stop,
        )

    return run


@host_block
def _run_exact(
    instructions, narrow, wide, edges, luts, single, double, times, codes, width, values, indices, start, stop
):
    n_rows = values.shape[1]
    for k in range(start, stop):
        op = instructions[k, OP]
        kind = instructions[k, KIND]
        x = instructions[k, X]
        y = instructions[k, Y]
        arg = instructions[k, ARG]
        size = instructions[k, SIZE]
        lut = instructions[k, LUT]
        dst = instructions[k, DST]
        p0, p1 = narrow[k, 0], narrow[k, 1]
        for i in range(n_rows):
            of_8, of_4 = i * width, 2 * i * width  # where the record starts, in numbers of 8 and of 4 bytes
            if op == Opcode.LOAD:
                if kind == SINGLE:
                    values[dst, i] = single[of_4 + x] - p0
                else:
                    values[dst, i] = float32(double[of_8 + x] - wide[k, 0])
            elif op == Opcode.TAKE:
                at = indices[x, i]
                at = at if at > int64(0) else int64(0)
                at = at if at < size else int64(size - 1)
                values[dst, i] = luts[lut + at]
            elif op == Opcode.INDEX:
                indices[dst, i] = codes[of_4 + x]
            elif op == Opcode.EQUAL:
                values[dst, i] = flag(codes[of_4 + x] == arg)
            elif op == Opcode.FILL:
                values[dst, i] = fill(values[x, i], p0)
            elif op == Opcode.SCALE:
                values[dst, i] = finite(values[x, i] * p0 + p1)
            elif op == Opcode.CLIP:
                values[dst, i] = clip(values[x, i], p0, p1)
            elif op == FINITE:
                values[dst, i] = finite(values[x, i])
            elif op == Opcode.IS_NULL:
                if kind == SINGLE:
                    values[dst, i] = flag(single[of_4 + x] != single[of_4 + x])
                elif kind == DOUBLE:
                    values[dst, i] = flag(double[of_8 + x] != double[of_8 + x])
                else:
                    values[dst, i] = flag(times[of_8 + x] == NAT)
            elif op == Opcode.INDEX_PAIR:
                indices[dst, i] = indices[y, i] * arg + codes[of_4 + x]
            elif op == Opcode.INDEX_PART:
                time = times[of_8 + x]
                indices[dst, i] = size if time == NAT else part(time, arg)
            elif op == Opcode.INDEX_BIN:
                if kind == SINGLE:
                    indices[dst, i] = bin_of(single[of_4 + x], luts, np.uint64(lut), size, arg)
                else:
                    indices[dst, i] = bin_of(double[of_8 + x], edges, np.uint64(lut), size, arg)
            elif op == Opcode.PART:
                time = times[of_8 + x]
                values[dst, i] = NAN if time == NAT else float32(part(time, arg))
            elif op == Opcode.ELAPSED:
                values[dst, i] = elapsed(times[of_8 + x], wide[k, 0], wide[k, 1])
            elif op == Opcode.BETWEEN:
                values[dst, i] = time_between(times[of_8 + x], times[of_8 + y], wide[k, 0])
            elif op == Opcode.LOCAL_PART:
                time = times[of_8 + x]
                local = local_time(time, edges, np.uint64(lut), size)
                values[dst, i] = NAN if time == NAT else float32(part(local, arg))
            elif op == Opcode.INDEX_LOCAL_PART:
                time = times[of_8 + x]
                local = local_time(time, edges, np.uint64(lut), size)
                indices[dst, i] = 0 if time == NAT else part(local, arg) + 1
            elif op == Opcode.ZONED_PART or op == Opcode.INDEX_ZONED_PART:
                time = times[of_8 + x]
                low, high = zone_bounds(indices[y, i], edges, np.uint64(lut))
                is_known = time != NAT and low < high
                found = int64(0)
                if is_known:
                    found = int64(part(local_time(time, edges, np.uint64(lut + low), high - low), arg))
                if op == Opcode.ZONED_PART:
                    values[dst, i] = float32(found) if is_known else NAN
                else:
                    indices[dst, i] = found + 1 if is_known else 0
            elif op == Opcode.ADD:
                values[dst, i] = finite(values[x, i] + values[y, i])
            elif op == Opcode.SUBTRACT:
                values[dst, i] = finite(values[x, i] - values[y, i])
            elif op == Opcode.MULTIPLY:
                values[dst, i] = finite(values[x, i] * values[y, i])
            elif op == Opcode.DIVIDE:
                values[dst, i] = finite(values[x, i] / values[y, i])

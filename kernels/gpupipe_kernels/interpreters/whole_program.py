"""Kernel declaration of a program with every kind of instruction; the reference is the NumPy interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from gpupipe_kernels.contract import Argument, KernelDeclaration
from gpupipe_kernels.device import arrays
from gpupipe_kernels.interpreters import assembly
from gpupipe_kernels.interpreters.cuda import interpreter as cuda_interpreter
from gpupipe_kernels.interpreters.kernels import RADIUS_KM, sample_numbers, sample_points, sample_times
from gpupipe_kernels.interpreters.numpy import interpreter as numpy_interpreter
from gpupipe_kernels.program.opcodes import BLOCKS, NAT, PART_SIZES, CalendarPart, Field, Opcode
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.typing import HostArray

N_CODES, N_FOLDS = 7, 3


@cache
def program() -> Program:
    """Return the program; its 36 columns are several panels of a row-major matrix."""
    parts = [
        assembly.arithmetic(),
        assembly.bins(-1.0, 0.0, 1.0),
        assembly.impute(0.5, -8.0, 8.0, 0.3, 0.1),
        assembly.of_number(Opcode.LOG1P),
        assembly.of_number(Opcode.YEO_JOHNSON, 0.5),
        assembly.of_number(Opcode.SINE, 1e-4, 0.7),
        assembly.standardize(1e6, 0.3),
        assembly.calendar_parts(),
        assembly.local_parts(),
        assembly.zoned_parts(N_CODES),
        assembly.elapsed(1.6e15, 1e6),
        assembly.lookup(N_CODES),
        _out_of_fold(),
        _hours(),
    ]
    points = assembly.of_points(Opcode.HAVERSINE, RADIUS_KM, 40.0)
    points.instructions[:, Field.ROW] += np.where(points.instructions[:, Field.ROW] >= 0, 2, 0)
    return _joined([*parts, points])


def _out_of_fold() -> Program:
    index = (Opcode.INDEX, -1, BLOCKS.index("int16"), 1, 0, 0, 0, 0)
    fold, take = (Opcode.INDEX_FOLD, -1, -1, -1, N_CODES, 0, 0, 0), (Opcode.TAKE, 0, -1, -1, 0, 0, 0, N_CODES * N_FOLDS)
    return assembly.assemble([index, fold, take], [], np.arange(N_CODES * N_FOLDS) * 0.25)


def _hours() -> Program:
    n = PART_SIZES[CalendarPart.HOUR]
    index = (Opcode.INDEX_PART, -1, BLOCKS.index("int64"), 0, CalendarPart.HOUR, 0, 0, n)
    return assembly.assemble([index, (Opcode.TAKE, 0, -1, -1, 0, 0, 0, n + 1)], [], np.arange(n + 1) * 0.125)


def _joined(parts: list[Program]) -> Program:
    """Return the concatenation of programs, with the columns of all."""
    whole = assembly.assemble(np.empty((0, len(Field))), [], n_columns=0)
    for part in parts:
        moved = part.instructions.copy()
        moved[:, Field.DST] += np.where(moved[:, Field.DST] >= 0, whole.n_columns, 0)
        moved[:, Field.PARAM] += len(whole.params)
        moved[:, Field.LUT] += len(whole.luts)
        whole = Program(
            np.concatenate([whole.instructions, moved]),
            np.concatenate([whole.params, part.params]),
            np.concatenate([whole.luts, part.luts]),
            whole.n_columns + part.n_columns,
        )
    return whole


def _blocks(f32: Any, f64: Any, i64: Any, i16: Any) -> Mapping[str, Any]:
    return {"float32": f32, "float64": f64, "int64": i64, "int16": i16}


def _on_host(*inputs: HostArray) -> tuple[HostArray, HostArray]:
    out = np.empty((inputs[0].shape[1], program().n_columns), np.float32, order="F")
    numpy_interpreter.run(program(), _blocks(*inputs[:4]), out, inputs[4])
    return out, out


def _on_device(*inputs: Any) -> tuple[Any, Any]:
    shape = (inputs[0].shape[1], program().n_columns)
    columns, lines = (arrays.empty(shape, np.float32, order=order) for order in ("F", "C"))
    for out in (columns, lines):
        cuda_interpreter.run(program(), _blocks(*inputs[:4]), out, inputs[4])
    return columns, lines


def _sample(rng: np.random.Generator, n: int) -> tuple[HostArray, ...]:
    points, _ = sample_points(rng, n)
    f32 = np.concatenate([sample_numbers(rng, n, 2).astype(np.float32), points])
    codes, fold = rng.integers(0, N_CODES, (2, n)).astype(np.int16), rng.integers(0, N_FOLDS, n).astype(np.int8)
    return f32, 1e6 + sample_numbers(rng, n), sample_times(rng, n, 2), codes, fold


INPUTS = (
    Argument("f32", "float32", ("6", "rows")),
    Argument("f64", "float64", ("1", "rows"), null=np.nan),
    Argument("i64", "int64", ("2", "rows"), null=NAT),
    Argument("i16", "int16", ("2", "rows"), null=0, least=0, greatest=N_CODES - 1),
    Argument("fold", "int8"),
)
OUTPUTS = tuple(Argument(order, "float32", ("rows", "columns")) for order in ("column_major", "row_major"))

KERNELS = (
    KernelDeclaration(
        "program",
        "every kind of instruction, written to a column-major and a row-major matrix",
        INPUTS,
        OUTPUTS,
        "that of each instruction",
        1e-5,
        1e-2,
        _on_host,
        _on_host,
        _on_device,
        _sample,
        tuple(cuda_interpreter.LOOPS.values()),
    ),
)

"""Machine instructions that an interpreter issues for 128 rows of a program, counted without a GPU.

In row-major order, the rows of the matrix are aligned to 16 bytes.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.device.twenty_columns import twenty_columns
from gpupipe_kernels.device.compiler import join
from gpupipe_kernels.interpreters.cuda.loops import LOOPS, PARAMETERS, THREADS, Order
from gpupipe_kernels.interpreters.cuda.program import DeviceProgram
from gpupipe_kernels.interpreters.cuda.steps import ROWS_A_THREAD
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.proof.device_compilers import assemble, ptx_of
from gpupipe_kernels.toolchain import find_program
from tools.machine_code.sass import SassCode, SassRegisters, SassThread, constant_words

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
COUNTED_ROWS = 128
WARP = 32

ARGUMENTS_AT = {"sm_75": 0x160, "sm_80": 0x160, "sm_90": 0x210, "sm_100": 0x380, "sm_120": 0x380}
"""Offset of a kernel's arguments in constant bank 0."""
BLOCK_AT = {"sm_75": 0x0, "sm_80": 0x0, "sm_90": 0x0, "sm_100": 0x360, "sm_120": 0x360}
GRID_AT = {"sm_75": 0xC, "sm_80": 0xC, "sm_90": 0xC, "sm_100": 0x370, "sm_120": 0x370}


def count(program: DeviceProgram, order: Order, architectures: Sequence[str] = ARCHITECTURES) -> dict[str, int]:
    """Return architecture to warp instructions for `COUNTED_ROWS` rows: those per tile, without those per block.

    Raises
    ------
    ValueError
        If the path of a thread cannot be followed.
    """
    return {
        architecture: _count(code, words, program, order, architecture)
        for architecture, (code, words) in disassemble(LOOPS[order, True], architectures).items()
    }


def _count(
    code: SassCode, words: dict[tuple[int, int], int], program: DeviceProgram, order: Order, architecture: str
) -> int:
    n_parts = len(program.tables(order).parts)
    steps = 0
    writes = 0
    for part in range(n_parts if order == "columns" else 1):
        one, two = (_run(code, words, program, order, architecture, part, n_tiles) for n_tiles in (1, 2))
        steps += two[0] - one[0]
        writes += two[1] - one[1]
    n_columns = program.program.n_columns
    expected = ROWS_A_THREAD * n_columns // (1 if order == "columns" else 4)  # rows: four cells at a time
    if writes != expected:
        raise ValueError(f"{order}, {architecture}: expected {expected} stores of a thread for a tile, found {writes}")
    return round(steps * COUNTED_ROWS / (WARP * ROWS_A_THREAD))


def _run(
    code: SassCode,
    words: dict[tuple[int, int], int],
    program: DeviceProgram,
    order: Order,
    architecture: str,
    part: int,
    n_tiles: int,
) -> tuple[int, int]:
    threads, tables = THREADS[order], program.tables(order)
    arrays = (tables.lines, tables.parts, tables.luts)
    named = dict(zip(("table", "parts", "luts"), arrays, strict=True))
    n_rows, stack_cells = n_tiles * ROWS_A_THREAD * threads, program.depth * ROWS_A_THREAD * threads
    step = n_rows if order == "columns" else program.program.n_columns
    given: dict[str, Any] = {
        "stack_cells": stack_cells,
        "has_fold": 0,
        "is_aligned": 1,
        "n_rows": n_rows,
        "step": step,
    }
    constants, memory = dict(words), {}
    at = ARGUMENTS_AT[architecture]
    for number, (name, kind) in enumerate(PARAMETERS.items(), start=1):
        if kind.endswith("[::1]"):
            array = np.ascontiguousarray(named.get(name, np.empty(0, kind.removesuffix("[::1]")))).reshape(-1)
            address = number << 32
            memory[address] = array.tobytes()
            at = -(-at // 8) * 8
            values = [(address, 8), (array.size, 8)]
        else:
            size = {"boolean": 1, "int32": 4}.get(kind, 8)
            at = -(-at // size) * size
            values = [(int(given.get(name, n_rows)), size)]
        for value, size in values:
            for i in range(0, size, 4):
                constants[0, at + i] = value >> 8 * i & 0xFFFFFFFF
            at += size
    for place, value in ((BLOCK_AT, threads), (GRID_AT, 1)):
        constants[0, place[architecture]] = value
    special = {"SR_TID.X": 0, "SR_CTAID.X": 0, "SR_CTAID.Y": part, "SR_CgaCtaId": 0}
    thread = SassThread(code, SassRegisters(constants, memory, special))
    return thread.run(), thread.n_writes


def find_nvdisasm() -> Path | None:
    """Return the path of the disassembler: that of the wheel, else the system's."""
    try:
        files = distribution("nvidia-cuda-nvdisasm").files or []
        return Path(str(next(file.locate() for file in files if file.name == "nvdisasm")))
    except (PackageNotFoundError, StopIteration):
        found = find_program("nvdisasm")
        return Path(found) if found else None


def disassemble(
    loop: DeviceLoop, architectures: Sequence[str]
) -> dict[str, tuple[SassCode, dict[tuple[int, int], int]]]:
    """Return the machine code of a loop for each architecture, and its constants."""
    nvdisasm = find_nvdisasm()
    if nvdisasm is None:
        raise ValueError("nvdisasm must be installed")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "loop.cubin"
        for architecture in architectures:
            cubin.write_bytes(assemble(join(ptx_of(loop).values()), architecture).cubin)
            said = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout
            found[architecture] = SassCode.parse(said), constant_words(cubin.read_bytes())
    return found


def counts(architectures: Sequence[str] = ARCHITECTURES) -> dict[str, dict[str, int]]:
    """Return kernel to architecture to the number of warp instructions for `COUNTED_ROWS` rows of `twenty_columns`."""
    program = DeviceProgram(twenty_columns())
    return {f"interpret_{order}": count(program, order, architectures) for order in THREADS}

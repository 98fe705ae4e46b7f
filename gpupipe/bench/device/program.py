"""The fused interpreter on a device: 20 columns of a matrix in one launch, as a share of the copy bandwidth there."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpupipe_kernels.program import Program

COPY_BYTES = 2**30
BATCHES, CALLS = 5, 10
N_NUMBERS, N_LOGARITHMS, N_CODES, N_LEVELS = 10, 2, 2, 1000
ORDERS = {"column-major": "F", "row-major": "C"}


def twenty_columns() -> Program:
    """Return the program: 10 numbers imputed and scaled, 2 logarithms, 4 one-hot, 2 looked up, 2 cyclic ones."""
    import numpy as np

    from gpupipe_kernels.opcodes import BLOCKS, PART_SIZES, Op, Part
    from gpupipe_kernels.program import Program

    i8, i16, _, f32, _, i64 = range(len(BLOCKS))
    rows: list[tuple[int, ...]] = []
    for i in range(N_NUMBERS):
        chain = [(Op.LOAD, f32, i, 0), (Op.FILL, -1, -1, 1), (Op.SCALE, -1, -1, 2)]
        rows += [(op, i, block, row, 0, param, 0, 0) for op, block, row, param in chain]
    for i in range(N_NUMBERS, N_NUMBERS + N_LOGARITHMS):
        rows += [(Op.LOAD, i, f32, i, 0, 4, 0, 0), (Op.LOG1P, i, -1, -1, 0, 0, 0, 0)]
    rows += [(Op.EQUAL, 12 + code, i8, 0, code, 0, 0, 0) for code in range(4)]
    for i in range(N_CODES):
        rows += [(Op.INDEX, -1, i16, i, 0, 0, 0, 0), (Op.TAKE, 16 + i, -1, -1, 0, 0, i * N_LEVELS, N_LEVELS)]
    n_hours = PART_SIZES[Part.HOUR_OF_WEEK]
    rows += [(Op.INDEX_PART, -1, i64, 0, Part.HOUR_OF_WEEK, 0, 0, n_hours)]
    for i in range(2):
        at = N_CODES * N_LEVELS + i * (n_hours + 1)
        rows += [(Op.TAKE, 18 + i, -1, -1, 0, 0, at, n_hours + 1)]
    hours = np.arange(n_hours + 1) * (2 * np.pi / n_hours)
    luts = np.concatenate([np.arange(N_CODES * N_LEVELS) / N_LEVELS, np.sin(hours), np.cos(hours)])
    params = np.array([5.0, 0.0, 0.5, 0.0, 0.0])
    return Program(np.array(rows, np.int32), params, luts.astype(np.float32), 20)


def bytes_per_row(program: Program) -> int:
    """Return what has to be read and written for a row: each source column once, each cell of the matrix once."""
    import numpy as np

    from gpupipe_kernels.opcodes import BLOCKS, Field

    sources = {(row[Field.BLOCK], row[Field.ROW]) for row in program.instructions.tolist() if row[Field.BLOCK] >= 0}
    return sum(np.dtype(BLOCKS[block]).itemsize for block, _ in sources) + 4 * program.n_columns


def table(n_rows: int) -> dict[str, Any]:
    """Return the blocks that `twenty_columns` reads, on the host."""
    import numpy as np

    rng = np.random.default_rng(0)
    numbers = rng.exponential(10.0, (N_NUMBERS + N_LOGARITHMS, n_rows)).astype(np.float32)
    numbers[:, ::10] = np.nan
    return {
        "int8": rng.integers(0, 5, (1, n_rows)).astype(np.int8),
        "int16": rng.integers(0, N_LEVELS, (N_CODES, n_rows)).astype(np.int16),
        "float32": numbers,
        "int64": rng.integers(0, 2**50, (1, n_rows)),
    }


def copy_bandwidth(n_bytes: int) -> float:
    """Return bytes read and written per second by a copy from the device's memory to itself."""
    import numpy as np
    from numba import cuda

    source, target = (cuda.device_array(n_bytes, np.uint8) for _ in range(2))
    return 2 * n_bytes / seconds_of(lambda: target.copy_to_device(source))


def run_program(program: Program, n_rows: int, order: str) -> dict[str, Any]:
    """Return the figures of one launch for all columns, in a memory order of `ORDERS`."""
    import numpy as np
    from numba import cuda

    from gpupipe_kernels.interpreters.interpret_cuda import DeviceProgram, run

    blocks = _on_device(table(min(n_rows, 1_000_000)), n_rows)
    out = cuda.device_array((n_rows, program.n_columns), np.float32, order=ORDERS[order])
    ready = DeviceProgram(program)
    seconds = seconds_of(lambda: run(ready, blocks, out))
    n_bytes = n_rows * bytes_per_row(program)
    return {"order": order, "rows": n_rows, "columns": program.n_columns, "bytes": n_bytes, "seconds": seconds,
            "bytes_per_second": n_bytes / seconds}  # fmt: skip


def _on_device(blocks: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """Return blocks of `n_rows` on the device, the given rows over and over."""
    from numba import cuda

    made = {}
    for name, block in blocks.items():
        made[name] = cuda.device_array((len(block), n_rows), block.dtype)
        for i, column in enumerate(block):
            for start in range(0, n_rows, len(column)):
                stop = min(start + len(column), n_rows)
                made[name][i, start:stop].copy_to_device(column[: stop - start])
    return made


def seconds_of(function: Callable[[], object]) -> float:
    """Return the seconds of one call: the median of batches, each of several calls that the device is waited for."""
    from numba import cuda

    function()
    seconds = []
    for _ in range(BATCHES):
        cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            function()
        cuda.synchronize()
        seconds.append((time.perf_counter() - start) / CALLS)
    return statistics.median(seconds)


def program_line(row: Mapping[str, Any]) -> str:
    """Return the figures of `run_program`, and their share of the copy bandwidth, as people read them."""
    return (
        f"{row['order']}: {row['rows']:,} rows x {row['columns']} columns in {row['seconds'] * 1e3:.2f} ms, "
        f"{row['bytes_per_second'] / 1e9:,.0f} GB/s, {row['share_of_copy']:.0%} of the copy"
    )

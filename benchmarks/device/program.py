"""All features in one launch on a device: 20 columns of a matrix, as a share of the copy bandwidth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from benchmarks.device.twenty_columns import bytes_per_row, table, twenty_columns
from gpupipe.units import GIB
from gpupipe_kernels.program.program import Program

__all__ = ["bytes_per_row", "copy_bandwidth", "program_line", "run_program", "table", "twenty_columns"]

COPY_BYTES = GIB
BATCHES, CALLS = 5, 10
ORDERS = {"column-major": "F", "row-major": "C"}


def copy_bandwidth(n_bytes: int) -> float:
    """Return bytes read and written per second by a device-to-device copy."""
    import numpy as np
    from numba import cuda

    source, target = (cuda.device_array(n_bytes, np.uint8) for _ in range(2))
    return 2 * n_bytes / seconds_of(lambda: target.copy_to_device(source))


def copy_of_memory(memory_bytes: int) -> float:
    """Return `copy_bandwidth` for an amount that a device with this memory surely has."""
    return copy_bandwidth(min(COPY_BYTES, memory_bytes // 4))


def run_program(program: Program, n_rows: int, order: str, specialised: bool = False) -> dict[str, Any]:
    """Return the measurements of one launch for all columns.

    Parameters
    ----------
    program : Program
    n_rows : int
    order : str
        Memory order of the matrix: a key of `ORDERS`.
    specialised : bool
        Whether to run a kernel compiled for the program instead of the interpreter.
    """
    import numpy as np
    from numba import cuda

    from gpupipe_kernels.interpreters.cuda.interpreter import DeviceProgram, run

    blocks = _on_device(table(min(n_rows, 1_000_000)), n_rows)
    out = cuda.device_array((n_rows, program.n_columns), np.float32, order=ORDERS[order])
    ready = DeviceProgram(program)
    start = time.perf_counter()
    kernel = run(ready, blocks, out, specialised=specialised)
    cuda.synchronize()
    first_seconds = time.perf_counter() - start
    seconds = seconds_of(lambda: run(ready, blocks, out, specialised=specialised))
    n_bytes = n_rows * bytes_per_row(program)
    return {"order": order, "kernel": kernel, "rows": n_rows, "columns": program.n_columns, "bytes": n_bytes,
            "first_seconds": first_seconds, "seconds": seconds, "bytes_per_second": n_bytes / seconds}  # fmt: skip


def launch_each(n_rows: int) -> None:
    """Launch the interpreter and the kernel compiled for `twenty_columns` once in each order, for a profiler."""
    import numpy as np
    from numba import cuda

    from gpupipe_kernels.interpreters.cuda.interpreter import DeviceProgram, run

    program = twenty_columns()
    blocks, ready = _on_device(table(min(n_rows, 1_000_000)), n_rows), DeviceProgram(program)
    for order, specialised in product(ORDERS.values(), (False, True)):
        out = cuda.device_array((n_rows, program.n_columns), np.float32, order=order)
        run(ready, blocks, out, specialised=specialised)
        cuda.synchronize()


def _on_device(blocks: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """Return blocks of `n_rows` on the device, which repeat the given rows."""
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
    """Return the seconds of one call: the median of batches of several calls, each followed by a synchronization."""
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
    """Return the result of `run_program`, and its share of the copy bandwidth, as a line of text."""
    return (
        f"{row['order']}, {row['kernel']}: {row['rows']:,} rows x {row['columns']} columns in "
        f"{row['seconds'] * 1e3:.2f} ms (first call {row['first_seconds']:.1f} s), "
        f"{row['bytes_per_second'] / 1e9:,.0f} GB/s, {row['share_of_copy']:.0%} of the copy"
    )

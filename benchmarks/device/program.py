"""All features in one launch on a device: 20 columns of a matrix, as a share of the copy bandwidth."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from benchmarks.device.twenty_columns import bytes_per_row, table, twenty_columns
from gpupipe.units import GIB
from gpupipe_kernels.device import arrays
from gpupipe_kernels.launch import is_simulated
from gpupipe_kernels.program.program import Program

__all__ = ["bytes_per_row", "copy_bandwidth", "program_line", "run_program", "table", "twenty_columns"]

COPY_BYTES = GIB
BATCHES, CALLS = 5, 10
ORDERS: dict[str, Literal["C", "F"]] = {"column-major": "F", "row-major": "C"}


def copy_bandwidth(n_bytes: int) -> float:
    """Return bytes read and written per second by a device-to-device copy."""
    source, target = arrays.empty((n_bytes,), "uint8"), arrays.empty((n_bytes,), "uint8")
    if is_simulated():
        return 2 * n_bytes / seconds_of(lambda: target.copy_to_device(source))
    return 2 * n_bytes / seconds_of(lambda: target.data.copy_from_device_async(source.data, n_bytes))


def copy_of_memory(memory_bytes: int) -> float:
    """Return `copy_bandwidth` for an amount that a device with this memory surely has."""
    return copy_bandwidth(min(COPY_BYTES, memory_bytes // 4))


def run_program(program: Program, n_rows: int, order: str) -> dict[str, Any]:
    """Return the measurements of one launch for all columns.

    Parameters
    ----------
    program : Program
    n_rows : int
    order : str
        Memory order of the matrix: a key of `ORDERS`.
    """
    from gpupipe_kernels.interpreters.cuda.interpreter import DeviceProgram, run

    blocks = _on_device(table(min(n_rows, 1_000_000)), n_rows)
    out = arrays.empty((n_rows, program.n_columns), "float32", ORDERS[order])
    ready = DeviceProgram(program)
    start = time.perf_counter()
    run(ready, blocks, out)
    _synchronize()
    first_seconds = time.perf_counter() - start
    seconds = seconds_of(lambda: run(ready, blocks, out))
    n_bytes = n_rows * bytes_per_row(program)
    return {"order": order, "rows": n_rows, "columns": program.n_columns, "bytes": n_bytes,
            "first_seconds": first_seconds, "seconds": seconds, "bytes_per_second": n_bytes / seconds}  # fmt: skip


def launch_each(n_rows: int) -> None:
    """Launch the interpreter for `twenty_columns` once in each order, for a profiler.

    Raises
    ------
    SystemExit
        If one of them failed, after the others.
    """
    from gpupipe_kernels.interpreters.cuda.interpreter import DeviceProgram, run

    program, failed = twenty_columns(), []
    blocks, ready = _on_device(table(min(n_rows, 1_000_000)), n_rows), DeviceProgram(program)
    for order, letter in ORDERS.items():
        try:
            run(ready, blocks, arrays.empty((n_rows, program.n_columns), "float32", letter))
            _synchronize()
        except Exception as error:  # of any kind: the other order is of use
            failed.append(f"{order}: {type(error).__name__}: {error}")
    if failed:
        raise SystemExit("; ".join(failed))


def _synchronize() -> None:
    if is_simulated():
        return
    import cupy

    cupy.cuda.Device().synchronize()


def _on_device(blocks: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """Return blocks of `n_rows` on the device, which repeat the given rows."""
    made = {}
    for name, block in blocks.items():
        made[name] = arrays.empty((len(block), n_rows), name)
        for i, column in enumerate(block):
            for start in range(0, n_rows, len(column)):
                part = made[name][i, start : min(start + len(column), n_rows)]
                if is_simulated():
                    part.copy_to_device(column[: len(part)])
                else:
                    part.set(column[: len(part)])
    return made


def seconds_of(function: Callable[[], object]) -> float:
    """Return the seconds of one call: the median of batches of several calls, each followed by a synchronization."""
    function()
    seconds = []
    for _ in range(BATCHES):
        _synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            function()
        _synchronize()
        seconds.append((time.perf_counter() - start) / CALLS)
    return statistics.median(seconds)


def program_line(row: Mapping[str, Any]) -> str:
    """Return the result of `run_program`, and its share of the copy bandwidth, as a line of text."""
    return (
        f"{row['order']}: {row['rows']:,} rows x {row['columns']} columns in "
        f"{row['seconds'] * 1e3:.2f} ms (first call {row['first_seconds']:.1f} s), "
        f"{row['bytes_per_second'] / 1e9:,.0f} GB/s, {row['share_of_copy']:.0%} of the copy"
    )

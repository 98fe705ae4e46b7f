"""Machine code of every device loop, compiled without a GPU: PTX by Numba, assembled by ptxas.

``python -m gpupipe_kernels.proof.machine_code`` prints it as JSON.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpupipe_kernels.catalog import block_of, device_loops
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.proof.device_compilers import (
    ARCHITECTURES,
    INSTALL,
    compiler_versions,
    find_ptxas,
    missing_compiler,
    ptx_of,
)
from gpupipe_kernels.proof.occupancy import occupancy


@dataclass(frozen=True)
class MachineCode:
    """Resource usage of a loop, as reported by ptxas.

    Attributes
    ----------
    registers : int
        Registers per thread.
    stack, spill_stores, spill_loads : int
        Bytes per thread: local arrays, and registers spilled to memory.
    shared, constant : int
        Bytes of static shared memory per block, and of constant memory including arguments (0 if not reported).
    barriers : int
    f64 : int
        Number of float64 instructions in the PTX.
    """

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    constant: int
    barriers: int
    f64: int


Table = dict[str, dict[str, MachineCode]]


def inspect(loops: Mapping[str, DeviceLoop], architectures: Sequence[str]) -> Table:
    """Compile every loop for every architecture and return the results by loop name and architecture.

    Raises
    ------
    ValueError
        If a loop does not compile; the message contains its name and the compiler's error.
    """
    ptxas = find_ptxas()
    if ptxas is None:
        raise ValueError("ptxas is not installed")
    waiting: dict[str, dict[str, Future[MachineCode]]] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, loop in loops.items():
            ptx = ptx_of(loop, tuple(architectures))
            waiting[name] = {a: pool.submit(_assemble, ptxas, name, ptx[a], a) for a in architectures}
    return {name: {a: future.result() for a, future in row.items()} for name, row in waiting.items()}


def document(loops: Mapping[str, DeviceLoop], architectures: Sequence[str] = ARCHITECTURES) -> dict[str, Any]:
    """Return a JSON-serialisable description of `loops`: ``compilers``, and ``loops`` with their occupancy."""
    table = inspect(loops, architectures)
    return {
        "compilers": compiler_versions(),
        "loops": {name: _described(name, row) for name, row in sorted(table.items())},
    }


def _described(name: str, row: Mapping[str, MachineCode]) -> dict[str, dict[str, float]]:
    threads, dynamic = block_of(name)
    share = {a: occupancy(a, code.registers, code.shared + dynamic, threads) for a, code in row.items()}
    return {a: {**asdict(code), "occupancy": round(share[a], 4)} for a, code in row.items()}


def _assemble(ptxas: Path, name: str, ptx: str, architecture: str) -> MachineCode:
    command = [str(ptxas), "-v", f"-arch={architecture}", "-o", os.devnull, "-"]
    done = subprocess.run(command, input=ptx, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"{name} does not assemble for {architecture}: {done.stderr}")
    return parse(done.stderr, ptx)


def parse(said: str, ptx: str) -> MachineCode:
    """Return the figures in the output of ``ptxas -v`` for `ptx`; it omits zeros."""

    def number(pattern: str) -> int:
        return sum(map(int, re.findall(pattern, said)))

    return MachineCode(
        registers=number(r"Used (\d+) registers"),
        stack=number(r"(\d+) bytes stack frame"),
        spill_stores=number(r"(\d+) bytes spill stores"),
        spill_loads=number(r"(\d+) bytes spill loads"),
        shared=number(r"(\d+) bytes smem"),
        constant=number(r"(\d+) bytes cmem"),
        barriers=number(r"used (\d+) barriers"),
        f64=len(re.findall(r"^\s*(?:@\S+\s+)?[a-z][\w.]*\.f64\b", ptx, re.MULTILINE)),
    )


def main() -> int:
    """Print the machine code of all kernels as JSON; return 1 if a compiler is missing."""
    if missing := missing_compiler():
        print(f"{missing}: {INSTALL}", file=sys.stderr)
        return 1
    print(json.dumps(document(device_loops())))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Machine code of every device loop, compiled without a GPU: PTX by Numba, assembled by ptxas.

``python -m gpupipe_kernels.proof.machine_code`` prints it as JSON.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from gpupipe_kernels.catalog import block_of, device_loops
from gpupipe_kernels.device.binaries import ARCHITECTURES
from gpupipe_kernels.device.compiler import join
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.proof.device_compilers import INSTALL, assemble, compiler_versions, missing_compiler, ptx_of
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
    """Compile every loop for every architecture and return the results by entry name and architecture.

    Raise ValueError if a loop does not compile; the message contains its name and the compiler's error.
    """
    module = module_of(loops.values())
    whole = join(module.values())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = pool.map(lambda architecture: assemble(whole, architecture), architectures)
        said = {architecture: code.report for architecture, code in zip(architectures, codes, strict=True)}
    return {
        name: {architecture: parse(_report_of(name, report), ptx) for architecture, report in said.items()}
        for name, ptx in module.items()
    }


def module_of(loops: Iterable[DeviceLoop]) -> dict[str, str]:
    """Return entry name to PTX of loops, sorted by name."""
    return dict(sorted(chain.from_iterable(ptx_of(loop).items() for loop in loops)))


def _report_of(name: str, report: str) -> str:
    """Return the part of ptxas's report that is about an entry."""
    parts = re.split(r"Compiling entry function '(\w+)' for", report)
    return parts[parts.index(name) + 1]


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

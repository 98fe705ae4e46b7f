"""What the compilers make of every device loop, for real GPUs and without one: PTX by Numba, machine code by ptxas.

``python -m gpupipe_kernels.proof.machine_code`` prints it as JSON, and ``--record FILE`` writes the table that a test
holds. With it go the machine instructions that 128 rows of a program take (`instruction_counts`), and the share of the
copy bandwidth that follows for an H100 and an H200.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpupipe_kernels.catalog import block_of, device_loops
from gpupipe_kernels.launch import DeviceLoop
from gpupipe_kernels.proof import instruction_counts
from gpupipe_kernels.proof.device_compilers import (
    ARCHITECTURES,
    INSTALL,
    compiler_versions,
    find_nvdisasm,
    find_ptxas,
    missing_compiler,
    ptx_of,
)
from gpupipe_kernels.proof.occupancy import occupancy

REGISTER_MARGIN = 4  # another release of a compiler may want so many more; they are given out in eights
INSTRUCTION_MARGIN = 1.02  # the same for machine instructions
COUNTS, PREDICTIONS = "instructions_of_128_rows", "predicted_share_of_copy"
RECORD = "python -m gpupipe_kernels.proof.machine_code --record tests/kernels/machine_code.json"


@dataclass(frozen=True)
class MachineCode:
    """What ptxas says of a loop.

    Attributes
    ----------
    registers : int
        Of a thread.
    stack, spill_stores, spill_loads : int
        Bytes a thread: arrays of its own, and registers that had to go to memory and back.
    shared, constant : int
        Bytes: static shared memory of a block; constant memory, its arguments among it (0 where ptxas is silent).
    barriers : int
    f64 : int
        Instructions of the PTX that work on float64.
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


def inspect(loops: Mapping[str, DeviceLoop], architectures: Sequence[str] = ARCHITECTURES) -> Table:
    """Compile every loop for every architecture; return name to architecture to what came out.

    Raises
    ------
    ValueError
        If a loop does not compile; the message has its name and the compiler's words.
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


def differences(recorded: Mapping[str, Any], measured: Mapping[str, Any]) -> list[str]:
    """Return what is worse than it was recorded, one sentence each; both as `document` returns them."""
    old, new = recorded["loops"], measured["loops"]
    found = [f"{name}: recorded, but there is no such loop any more" for name in old if name not in new]
    found += [f"{name}: not recorded" for name in new if name not in old]
    for name in old:
        for architecture, before in old[name].items():
            after = new.get(name, {}).get(architecture)
            if after is not None:
                found += [f"{name} on {architecture}: {text}" for text in _worse(before, after)]
    return found + _more_instructions(recorded.get(COUNTS, {}), measured.get(COUNTS, {}))


def _more_instructions(recorded: Mapping[str, Any], measured: Mapping[str, Any]) -> list[str]:
    """Return which kernels take noticeably more instructions; nothing of those that were not counted."""
    return [
        f"{name} on {architecture}: {after} machine instructions for 128 rows (recorded: {before})"
        for name, row in recorded.items()
        for architecture, before in row.items()
        if (after := measured.get(name, {}).get(architecture, before)) > before * INSTRUCTION_MARGIN
    ]


def _worse(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    looks = {
        "spill_stores": "bytes of registers spilled to memory: is a loop unrolled, or an array of its own too large?",
        "spill_loads": "bytes of spilled registers loaded back",
        "stack": "bytes of stack: an array of its own is indexed by a value that is not known to the compiler",
        "shared": "bytes of shared memory: fewer blocks fit",
        "f64": "instructions in float64: is a constant written 0.5 instead of float32(0.5)?",
    }
    for field, meaning in looks.items():
        if after[field] > before[field]:
            yield f"{after[field]} {meaning} (recorded: {before[field]})"
    if after["registers"] > before["registers"] + REGISTER_MARGIN:
        yield f"{after['registers']} registers: fewer warps fit (recorded: {before['registers']})"


def document(loops: Mapping[str, DeviceLoop]) -> dict[str, Any]:
    """Return everything about `loops` as it is kept in JSON: ``compilers``, and ``loops`` with their occupancy."""
    table = inspect(loops)
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
    """Return the figures in what ``ptxas -v`` said of `ptx`; it leaves out what is zero."""

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the machine code of all kernels as JSON, or write it to a file; return 1 if a compiler is missing."""
    parser = argparse.ArgumentParser(prog="python -m gpupipe_kernels.proof.machine_code")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write it to this file")
    options = parser.parse_args(arguments)
    if missing := missing_compiler():
        print(f"{missing}: {INSTALL}", file=sys.stderr)
        return 1
    text = _text(document(device_loops()), _instructions())
    if options.record:
        options.record.write_text(text + "\n", encoding="utf8")
    else:
        print(text)
    return 0


def _instructions() -> dict[str, Any]:
    """Return the instructions for 128 rows and the predictions; empty without a disassembler."""
    if find_nvdisasm() is None:
        return {}
    found = instruction_counts.counts()
    return {COUNTS: found, PREDICTIONS: instruction_counts.predictions(found)}


def _text(made: Mapping[str, Any], instructions: Mapping[str, Any]) -> str:
    """Return JSON with a line for each loop and architecture: a change of one is a change of one line."""
    loops = []
    for name, row in made["loops"].items():
        lines = [f'      "{architecture}": {json.dumps(code)}' for architecture, code in row.items()]
        loops.append(f'    "{name}": {{\n' + ",\n".join(lines) + "\n    }")
    parts = [f'  "compilers": {json.dumps(made["compilers"])}', '  "loops": {\n' + ",\n".join(loops) + "\n  }"]
    for title, table in instructions.items():
        rows = [f'    "{kernel}": {json.dumps(row)}' for kernel, row in table.items()]
        parts.append(f'  "{title}": {{\n' + ",\n".join(rows) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}"


if __name__ == "__main__":
    sys.exit(main())

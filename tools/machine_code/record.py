"""Record of the machine code of every device loop, which a test checks: `tests/kernels/machine_code.json`.

``python -m tools.machine_code.record`` prints it as JSON; ``--write FILE`` writes it. It also contains the machine
instructions for 128 rows of a program (`instruction_counts`), and the share of the copy bandwidth that they allow
(`predictions`).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpupipe_kernels.catalog import device_loops
from gpupipe_kernels.device.binaries import ARCHITECTURES
from gpupipe_kernels.proof.device_compilers import INSTALL, missing_compiler
from gpupipe_kernels.proof.machine_code import document
from tools.device_code.build import build
from tools.device_code.build import differences as shipped_differences
from tools.machine_code.instruction_counts import ARCHITECTURES as COUNTED
from tools.machine_code.instruction_counts import counts, find_nvdisasm
from tools.machine_code.predictions import COUNTS, predictions

REGISTER_MARGIN = 4  # tolerance for other compiler releases; registers are allocated in groups of eight
INSTRUCTION_MARGIN = 1.02  # the same tolerance for machine instructions, as a factor
PREDICTIONS = "predicted_share_of_copy"
OUT_OF_DATE = "shipped_code_out_of_date"
RECORD = "python -m tools.machine_code.record --write tests/kernels/machine_code.json"


def differences(recorded: Mapping[str, Any], measured: Mapping[str, Any]) -> list[str]:
    """Return a message for each value that is worse than recorded; both arguments as `main` writes them."""
    old, new = recorded["loops"], measured["loops"]
    found = [f"{name}: recorded, but the loop no longer exists" for name in old if name not in new]
    found += [f"{name}: not recorded" for name in new if name not in old]
    for name in old:
        for architecture, before in old[name].items():
            after = new.get(name, {}).get(architecture)
            if after is not None:
                found += [f"{name} on {architecture}: {text}" for text in _worse(before, after)]
    return found + _more_instructions(recorded.get(COUNTS, {}), measured.get(COUNTS, {}))


def _more_instructions(recorded: Mapping[str, Any], measured: Mapping[str, Any]) -> list[str]:
    """Return a message for each kernel that takes noticeably more instructions; uncounted kernels are skipped."""
    return [
        f"{name} on {architecture}: {after} machine instructions for 128 rows (recorded: {before})"
        for name, row in recorded.items()
        for architecture, before in row.items()
        if (after := measured.get(name, {}).get(architecture, before)) > before * INSTRUCTION_MARGIN
    ]


def _worse(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    looks = {
        "spill_stores": "bytes of registers spilled to memory: check for an unrolled loop or a large local array",
        "spill_loads": "bytes of spilled registers loaded back",
        "stack": "bytes of stack: a local array is indexed by a value that the compiler does not know",
        "shared": "bytes of shared memory: fewer blocks fit on a multiprocessor",
        "f64": "instructions in float64: check for a constant written as 0.5 instead of float32(0.5)",
    }
    for field, meaning in looks.items():
        if after[field] > before[field]:
            yield f"{after[field]} {meaning} (recorded: {before[field]})"
    if after["registers"] > before["registers"] + REGISTER_MARGIN:
        yield f"{after['registers']} registers: fewer warps fit on a multiprocessor (recorded: {before['registers']})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the record as JSON, or write it to a file; return 1 if a compiler is missing."""
    parser = argparse.ArgumentParser(prog="python -m tools.machine_code.record")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write it to this file")
    parser.add_argument("--shipped", action="store_true", help="also compare the shipped machine code")
    parser.add_argument("--architectures", nargs="+", default=ARCHITECTURES, help="default: %(default)s")
    options = parser.parse_args(arguments)
    if missing := missing_compiler():
        print(f"{missing}: {INSTALL}", file=sys.stderr)
        return 1
    more = _instructions(options.architectures)
    if options.shipped:  # the same compilation as that of the record
        more[OUT_OF_DATE] = {"parts": shipped_differences(build(options.architectures))}
    text = _text(document(device_loops(), options.architectures), more)
    if options.write:
        options.write.write_text(text + "\n", encoding="utf8")
    else:
        print(text)
    return 0


def _instructions(architectures: Sequence[str]) -> dict[str, Any]:
    """Return the instruction counts for 128 rows and the predictions; empty without a disassembler."""
    if find_nvdisasm() is None:
        return {}
    found = counts([name for name in architectures if name in COUNTED])
    return {COUNTS: found, PREDICTIONS: predictions(found)}


def _text(made: Mapping[str, Any], instructions: Mapping[str, Any]) -> str:
    """Return JSON with one line per loop and architecture, so that a change of one changes one line."""
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

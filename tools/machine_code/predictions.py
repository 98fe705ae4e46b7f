"""Predicted speed of the interpreters on named GPUs, as an upper bound computed from instruction counts.

``python -m tools.machine_code.predictions tests/kernels/machine_code.json`` prints the table in `docs/benchmarks.md`.

A launch takes the longer of its memory traffic and its instructions. The model has no latency, no last wave of blocks,
no partial memory sectors and no launch, so a kernel at 100 % is not bound by its instructions, nothing more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.device.twenty_columns import bytes_per_row, twenty_columns
from tools.machine_code.instruction_counts import COUNTED_ROWS

COUNTS = "instructions_of_128_rows"
WARP_INSTRUCTIONS_A_CYCLE = 2.4
"""Warp instructions per cycle and multiprocessor: an assumption, 60 % of the four that its schedulers can issue."""
NAMES = {"interpret_columns": "column-major", "interpret_rows": "row-major"}


@dataclass(frozen=True)
class GpuModel:
    """Limits of a GPU that bound a launch.

    Attributes
    ----------
    name, architecture : str
    multiprocessors : int
    clock_hz : float
    copy_bytes_a_second : float
        Device-to-device copy bandwidth, bytes read plus bytes written.
    """

    name: str
    architecture: str
    multiprocessors: int
    clock_hz: float
    copy_bytes_a_second: float

    @property
    def title(self) -> str:
        """Name and clock."""
        return f"{self.name}, {self.clock_hz / 1e9:g} GHz"


GPUS = (
    GpuModel("H100", "sm_90", 132, 1.755e9, 3.0e12),
    GpuModel("H200", "sm_90", 132, 1.755e9, 4.3e12),
    GpuModel("H200", "sm_90", 132, 1.98e9, 4.3e12),
)
"""SXM5 boards. 1.98 GHz is their highest clock: NVIDIA's 67 TFLOPS in float32 are 132 multiprocessors x 128 cores x 2.
1.755 GHz, the highest clock of the PCIe board, stands for a board under load. The bandwidths are 90 % of the data
sheets' 3.35 and 4.8 TB/s: an assumption until measured."""


def memory_seconds(gpu: GpuModel) -> float:
    """Return the seconds in which a GPU copies as many bytes as `COUNTED_ROWS` rows read and write."""
    return bytes_per_row(twenty_columns()) * COUNTED_ROWS / gpu.copy_bytes_a_second


def issue_seconds(gpu: GpuModel, instructions: float) -> float:
    """Return the seconds in which a GPU issues the warp instructions of `COUNTED_ROWS` rows."""
    return instructions / (WARP_INSTRUCTIONS_A_CYCLE * gpu.multiprocessors * gpu.clock_hz)


def share_of_copy(gpu: GpuModel, instructions: float) -> float:
    """Return the share of the copy bandwidth that a launch can reach, up to 1."""
    return min(1.0, memory_seconds(gpu) / issue_seconds(gpu, instructions))


def predictions(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, float]]:
    """Return kernel to GPU to the share of the copy bandwidth that it can reach."""
    return {
        kernel: {
            gpu.title: round(share_of_copy(gpu, of[gpu.architecture]), 2) for gpu in GPUS if gpu.architecture in of
        }
        for kernel, of in counts.items()
    }


def table(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return the predictions as a Markdown table, with the instructions per cycle that a kernel needs for 100 %."""
    rows = [["matrix", "instructions", *(gpu.title for gpu in GPUS)], ["---", "---:", *["---:"] * len(GPUS)]]
    for kernel, name in NAMES.items():
        cells = []
        for gpu in GPUS:
            n = counts[kernel][gpu.architecture]
            needed = WARP_INSTRUCTIONS_A_CYCLE * issue_seconds(gpu, n) / memory_seconds(gpu)
            cells.append(f"{share_of_copy(gpu, n):.0%} ({needed:.1f})")
        rows.append([name, f"{counts[kernel][GPUS[0].architecture]:,}", *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: Sequence[str]) -> int:
    """Print the table for a record of machine code."""
    print(table(json.loads(Path(arguments[0]).read_text(encoding="utf8"))[COUNTS]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

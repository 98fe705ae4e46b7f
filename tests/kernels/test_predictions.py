"""Predicted speed of the program kernels: figures that documents and code derive from the recorded counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.device.twenty_columns import twenty_columns
from gpupipe_kernels.interpreters.cuda.specialisation import SAVED_SECONDS_A_CELL
from tools.machine_code.predictions import (
    COUNTS,
    GPUS,
    GpuModel,
    issue_seconds,
    memory_seconds,
    share_of_copy,
    table,
)

ROOT = Path(__file__).parents[2]
RECORDED = json.loads(Path(__file__).with_name("machine_code.json").read_text())[COUNTS]


def test_the_documented_table_is_that_of_the_recorded_counts() -> None:
    command = "python -m tools.machine_code.predictions tests/kernels/machine_code.json"
    assert table(RECORDED) in (ROOT / "docs" / "benchmarks.md").read_text(), f"insert the table of: {command}"


def test_the_saving_of_a_specialised_kernel_is_that_of_the_gpu_that_gains_most() -> None:
    n_cells = 128 * twenty_columns().n_columns
    for order, assumed in SAVED_SECONDS_A_CELL.items():
        n = RECORDED[f"interpret_{order}"]["sm_90"]
        saved = max(issue_seconds(gpu, n) - memory_seconds(gpu) for gpu in GPUS) / n_cells
        assert assumed == pytest.approx(saved, rel=0.1)


def test_the_interpreter_is_predicted_to_reach_85_percent_of_a_copy_on_an_h200() -> None:
    (h200,) = (gpu for gpu in GPUS if gpu.title == "H200, 1.98 GHz")
    assert min(share_of_copy(h200, RECORDED[f"interpret_{order}"]["sm_90"]) for order in SAVED_SECONDS_A_CELL) >= 0.85


def test_a_launch_takes_the_longer_of_memory_and_instructions() -> None:
    gpu = GpuModel("one", "sm_90", 1, 1e9, 141 * 128 * 1e6)  # 1 µs for 128 rows, and 2,400 instructions in it
    assert [share_of_copy(gpu, n) for n in (1200, 2400, 4800)] == pytest.approx([1.0, 1.0, 0.5])

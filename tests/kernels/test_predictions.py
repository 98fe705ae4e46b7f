"""Predicted speed of the interpreters: figures that documents derive from the recorded counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.machine_code.predictions import (
    COUNTS,
    GPUS,
    GpuModel,
    share_of_copy,
    table,
)

ROOT = Path(__file__).parents[2]
RECORDED = json.loads(Path(__file__).with_name("machine_code.json").read_text())[COUNTS]


def test_the_documented_table_is_that_of_the_recorded_counts() -> None:
    command = "python -m tools.machine_code.predictions tests/kernels/machine_code.json"
    assert table(RECORDED) in (ROOT / "docs" / "benchmarks.md").read_text(), f"insert the table of: {command}"


def test_the_interpreter_is_predicted_to_reach_85_percent_of_a_copy_on_an_h200() -> None:
    (h200,) = (gpu for gpu in GPUS if gpu.title == "H200, 1.98 GHz")
    assert min(share_of_copy(h200, of["sm_90"]) for of in RECORDED.values()) >= 0.85


def test_a_launch_takes_the_longer_of_memory_and_instructions() -> None:
    gpu = GpuModel("one", "sm_90", 1, 1e9, 141 * 128 * 1e6)  # 1 µs for 128 rows, and 2,400 instructions in it
    assert [share_of_copy(gpu, n) for n in (1200, 2400, 4800)] == pytest.approx([1.0, 1.0, 0.5])

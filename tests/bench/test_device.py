"""The script for the day a GPU is at hand, as far as it can run without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.bench import device, device_keyed
from gpupipe_kernels import keyed
from gpupipe_kernels.interpreters import interpret_numpy

IN_THE_SIMULATOR = """
import json
from gpupipe.bench import device

device.BATCHES = device.CALLS = 1
program = device.twenty_columns()
made = [device.run_program(program, 300, order) for order in device.ORDERS]
print(json.dumps({"copy": device.copy_bandwidth(64), "program": made}))
"""


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    everything = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    return subprocess.run([sys.executable, *arguments], env=everything, capture_output=True, text=True, check=False)


def test_without_a_gpu_it_says_why_and_exits_with_4() -> None:
    done = run_python("-m", "gpupipe.bench.device", GPUPIPE_FORCE_CPU="1")
    assert (done.returncode, done.stdout) == (4, "")
    assert "there is no GPU to measure: GPUPIPE_FORCE_CPU is set" in done.stderr


def test_the_simulator_is_never_taken_for_a_gpu() -> None:
    done = run_python("-m", "gpupipe.bench.device", GPUPIPE_FORCE_CPU="1", NUMBA_ENABLE_CUDASIM="1")
    assert done.returncode == 4


def test_what_it_runs_on_the_device_runs_in_the_simulator() -> None:
    done = run_python("-c", IN_THE_SIMULATOR, NUMBA_ENABLE_CUDASIM="1")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["copy"] > 0
    assert [row["order"] for row in made["program"]] == ["column-major", "row-major"]
    assert {row["bytes"] for row in made["program"]} == {300 * 141}


def test_the_program_writes_twenty_columns_from_its_table() -> None:
    program = device.twenty_columns()
    codes = {(0, 0): 5, (1, 0): device.N_LEVELS, (1, 1): device.N_LEVELS}
    program.check({0: 1, 1: 2, 3: 12, 5: 1}, codes)
    blocks = device.table(1_000)
    out = np.full((1_000, 20), 99, np.float32, order="F")
    interpret_numpy.run(program, blocks, out)
    assert (out != 99).all()
    assert np.isnan(out).any(axis=0).tolist() == [False] * 10 + [True] * 2 + [False] * 8
    np.testing.assert_array_equal(out[:, 14], blocks["int8"][0] == 2)


def test_bytes_are_those_of_each_source_column_and_each_cell_once() -> None:
    assert device.bytes_per_row(device.twenty_columns()) == 12 * 4 + 1 + 2 * 2 + 8 + 20 * 4


@pytest.mark.parametrize("feature", device_keyed.FEATURES)
def test_both_sides_of_a_keyed_comparison_mean_the_same(feature: str) -> None:
    """pandas has the names and meanings of cuDF."""
    rng = np.random.default_rng(0)
    n = 500
    key = np.where(rng.random(n) < 0.5, 0, rng.integers(0, 20, n)).astype(np.int32)
    when = rng.permutation(n) * (60 * device_keyed.DAY // n)
    value = rng.normal(size=n)
    ours, theirs = device_keyed.FEATURES[feature]
    history = keyed.order_events(key, when, 20)
    frame: Any = pd.DataFrame({"key": key, "when": when, "value": value})
    expected = theirs(frame.sort_values(["key", "when"], ignore_index=True)).to_numpy()
    np.testing.assert_allclose(ours(history, value[history.order])[history.order], expected, rtol=1e-5, atol=1e-6)


def test_the_figures_are_printed_with_what_failed() -> None:
    passed = {"failure": ""}
    document = {
        "gpu": "NVIDIA H200",
        "driver": "580.95",
        "copy_bytes_per_second": 4e12,
        "program": [{"order": "row-major", "rows": 50_000_000, "columns": 20, "seconds": 0.0025,
                     "bytes_per_second": 2.82e12, "share_of_copy": 0.705}],
        "keyed": [{"feature": "running sum", "gpupipe_seconds": 0.01, "cudf_seconds": 0.06, "ratio": 6.0,
                   "equal": False}],
        "parity": {"failed": 1, "kernels": [
            {"kernel": "sine", "cpu": passed, "device": passed},
            {"kernel": "bins", "cpu": passed, "device": {"failure": "seed 0, 1 row, sample: row 0 is 1.0, not 2.0"}},
        ]},
    }  # fmt: skip
    assert device.text_of(document).splitlines() == [
        "NVIDIA H200, driver 580.95",
        "copy bandwidth: 4,000 GB/s (read and written)",
        "row-major: 50,000,000 rows x 20 columns in 2.50 ms, 2,820 GB/s, 70% of the copy",
        "running sum: 10.00 ms, cuDF 60.00 ms, 6.0x, NOT EQUAL",
        "parity: 1 of 2 kernels within their tolerance",
        "  bins: seed 0, 1 row, sample: row 0 is 1.0, not 2.0",
    ]

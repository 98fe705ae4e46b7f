"""Steps for a GPU machine, as far as they run without a GPU."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.device import __main__ as device
from benchmarks.device import keyed as device_keyed
from benchmarks.device import processes
from benchmarks.device import program as device_program
from benchmarks.device import steps as device_steps
from benchmarks.device.cluster import compare, differences, line_of
from benchmarks.device.parity import fit_matrices, job_of
from benchmarks.device.results import StepResults
from benchmarks.device.steps import STEPS, DeviceStep
from benchmarks.device.twenty_columns import N_LEVELS
from gpupipe.config import load_config
from gpupipe.config.cluster import ClusterSettings
from gpupipe.units import DURATION_UNITS_US
from gpupipe_kernels import keyed
from gpupipe_kernels.interpreters.numpy import interpreter as numpy_interpreter
from tools.gpu_day.table import merge

IN_THE_SIMULATOR = """
import json
from benchmarks.device import program as device_program

device_program.BATCHES = device_program.CALLS = 1
program = device_program.twenty_columns()
made = [
    device_program.run_program(program, 64, order)
    for order in device_program.ORDERS
]
print(json.dumps({"copy": device_program.copy_bandwidth(64), "program": made}))
"""


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    everything = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    return subprocess.run([sys.executable, *arguments], env=everything, capture_output=True, text=True, check=False)


def test_without_a_gpu_it_says_why_and_exits_with_4() -> None:
    done = run_python("-m", "benchmarks.device", GPUPIPE_FORCE_CPU="1")
    assert (done.returncode, done.stdout) == (4, "")
    assert "no usable GPU: GPUPIPE_FORCE_CPU is set" in done.stderr


def test_the_simulator_is_never_treated_as_a_gpu() -> None:
    done = run_python("-m", "benchmarks.device", GPUPIPE_FORCE_CPU="1", NUMBA_ENABLE_CUDASIM="1")
    assert done.returncode == 4


def test_what_it_runs_on_the_device_runs_in_the_simulator() -> None:
    done = run_python("-c", IN_THE_SIMULATOR, NUMBA_ENABLE_CUDASIM="1")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["copy"] > 0
    assert [row["order"] for row in made["program"]] == ["column-major", "row-major"]
    assert {row["bytes"] for row in made["program"]} == {64 * 141}


def test_the_program_writes_twenty_columns_from_its_table() -> None:
    program = device_program.twenty_columns()
    codes = {(0, 0): 5, (1, 0): N_LEVELS, (1, 1): N_LEVELS}
    program.check({0: 1, 1: 2, 3: 12, 5: 1}, codes)
    blocks = device_program.table(1_000)
    out = np.full((1_000, 20), 99, np.float32, order="F")
    numpy_interpreter.run(program, blocks, out)
    assert (out != 99).all()
    assert np.isnan(out).any(axis=0).tolist() == [False] * 10 + [True] * 2 + [False] * 8
    np.testing.assert_array_equal(out[:, 14], blocks["int8"][0] == 2)


def test_bytes_count_each_source_column_and_each_cell_once() -> None:
    assert device_program.bytes_per_row(device_program.twenty_columns()) == 12 * 4 + 1 + 2 * 2 + 8 + 20 * 4


@pytest.mark.parametrize("feature", device_keyed.FEATURES)
def test_both_sides_of_a_keyed_comparison_compute_the_same(feature: str) -> None:
    """pandas has the names and meanings of cuDF."""
    rng = np.random.default_rng(0)
    n = 500
    key = np.where(rng.random(n) < 0.5, 0, rng.integers(0, 20, n)).astype(np.int32)
    when = rng.permutation(n) * (60 * DURATION_UNITS_US["d"] // n)
    value = rng.normal(size=n)
    ours, theirs = device_keyed.FEATURES[feature]
    history = keyed.order_events(key, when, 20)
    frame: Any = pd.DataFrame({"key": key, "when": when, "value": value})
    expected = theirs(frame.sort_values(["key", "when"], ignore_index=True)).to_numpy()
    np.testing.assert_allclose(ours(history, value[history.order])[history.order], expected, rtol=1e-5, atol=1e-6)


def test_figures_are_formatted_for_people() -> None:
    program = {"order": "row-major", "rows": 50_000_000, "columns": 20, "first_seconds": 4.2,
               "seconds": 0.0025, "bytes_per_second": 2.82e12, "share_of_copy": 0.705}  # fmt: skip
    keyed = {"feature": "running sum", "gpupipe_seconds": 0.01, "cudf_seconds": 0.06, "ratio": 6.0, "equal": False}
    assert device_program.program_line(program) == (
        "row-major: 50,000,000 rows x 20 columns in 2.50 ms (first call 4.2 s), 2,820 GB/s, 70% of the copy"
    )
    assert device_keyed.line_of(keyed) == "running sum: 10.00 ms, cuDF 60.00 ms, 6.0x, NOT EQUAL"


def fails() -> Any:
    return pd.Series([1, 2]).rolling("7D").sum()  # of what has no times


def test_features_that_both_sides_can_compute_are_kept() -> None:
    def compare(ours: Any, theirs: Any, are_equal: Any = np.array_equal) -> dict[str, Any]:
        return {"feature": "sum", **device_keyed.compare_runs(ours, theirs, are_equal, lambda run: len(run()) / 1e3)}

    two, four = (lambda: [0, 1]), (lambda: [0, 1, 2, 3])
    assert compare(two, two) == {
        "feature": "sum", "gpupipe_seconds": 0.002, "cudf_seconds": 0.002, "ratio": 1.0, "equal": True
    }  # fmt: skip
    rows = [compare(two, fails), compare(fails, two), compare(two, four, lambda a, b: fails())]
    error = "failed: ValueError: window must be an integer 0 or greater"
    assert [device_keyed.line_of(row) for row in rows] == [
        f"sum: 2.00 ms, cuDF {error}", f"sum: gpupipe {error}", f"sum: 2.00 ms, the comparison {error}"
    ]  # fmt: skip
    assert [device_keyed.failure_of(row) for row in rows] == [
        f"sum: {side} {error}" for side in ("cuDF", "gpupipe", "the comparison")
    ]
    assert rows[2]["cudf_seconds"] == 0.004
    assert device_keyed.failure_of(compare(two, two)) == ""
    assert device_keyed.failure_of(compare(two, four)) == "sum differs from cuDF's result"


def test_each_keyed_feature_is_saved_when_it_is_measured(
    options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compare(n_events: int) -> Any:
        yield {"feature": "lag", "error": "cuDF failed: MemoryError: out of memory"}
        raise KeyboardInterrupt

    monkeypatch.setattr(device_keyed, "compare", compare)
    saved: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        device_steps.keyed(options, lambda document: saved.append(json.loads(json.dumps(document))))
    assert saved[-1]["lines"] == saved[-1]["failed"] == ["lag: cuDF failed: MemoryError: out of memory"]


def test_the_features_of_a_cluster_are_compared_bit_for_bit() -> None:
    config = load_config(processes.ROOT / "configs" / "churn.yaml", ["source.rows=2000"])
    found = compare(config, "cpu", ClusterSettings(scheduler="local", workers=1, threads=1))
    assert found["differences"] == []
    assert found["workers"] == 1
    assert set(found["seconds"]) == {"cluster", "alone"}
    assert line_of(found).endswith("equal bits")


def test_a_bit_that_differs_is_reported() -> None:
    config = load_config(processes.ROOT / "configs" / "churn.yaml", ["source.rows=2000"])
    one = fit_matrices(job_of(config, "cpu"), "dense")
    other = replace(one, served=np.nextafter(one.served, np.float32(np.inf)))
    assert differences(one, one) == []
    assert differences(one, other) == ["the test matrix differs"]


def test_the_steps_are_listed_without_a_gpu() -> None:
    done = run_python("-m", "benchmarks.device", "--list", GPUPIPE_FORCE_CPU="1")
    assert done.returncode == 0
    *listed, total = done.stdout.splitlines()
    assert [line.split()[0] for line in listed] == list(STEPS)
    assert total.split() == ["all", str(sum(step.seconds for step in STEPS.values())), "s", "at", "most"]


def test_an_unknown_step_is_refused_with_the_nearest_name() -> None:
    done = run_python("-m", "benchmarks.device", "--steps", "program,kernls", GPUPIPE_FORCE_CPU="1")
    assert done.returncode == 2
    assert "unknown step 'kernls'" in done.stderr and "kernels" in done.stderr


def test_steps_are_chosen_in_their_own_order() -> None:
    assert device.chosen("program, probes") == ["probes", "program"]
    assert device.chosen(None) == list(STEPS)


@pytest.fixture
def options(tmp_path: Path) -> argparse.Namespace:
    return argparse.Namespace(out=tmp_path / "out", rows=100, events=100, seconds=float("inf"))


def run_steps(steps: dict[str, DeviceStep], options: argparse.Namespace) -> tuple[int, list[dict[str, Any]]]:
    code = device.run(list(steps), steps, options, StepResults(options.out, list(STEPS)))
    return code, json.loads((options.out / "results.json").read_text())


def test_a_step_that_works_here_runs_in_its_own_process(options: argparse.Namespace) -> None:
    """The doctor and the description of the machine need no GPU."""
    code, (row,) = run_steps({"environment": replace(STEPS["environment"], seconds=300)}, options)
    assert (row["name"], row["title"]) == ("environment", STEPS["environment"].title)
    assert row["figures"]["machine"]["python"] == platform.python_version()
    expected = "done" if row["figures"]["doctor"]["exit_code"] == 0 else "failed"
    assert (row["status"], code) == (expected, int(expected == "failed"))
    assert row["lines"] and "machine" not in row["lines"]


def test_a_step_with_missing_packages_is_skipped_with_the_reason(options: argparse.Namespace) -> None:
    needy = replace(STEPS["probes"], packages=("numpy", "no_such_package"))
    code, (row,) = run_steps({"probes": needy}, options)
    assert (code, row["status"], row["reason"]) == (0, "skipped", "not installed: no_such_package")


def test_a_step_that_takes_too_long_is_ended_and_the_next_one_runs(options: argparse.Namespace) -> None:
    slow = replace(STEPS["probes"], seconds=0, packages=())
    needy = replace(STEPS["kernels"], packages=("no_such_package",))
    code, (first, second) = run_steps({"probes": slow, "kernels": needy}, options)
    assert (code, first["status"], second["status"]) == (1, "timed out", "skipped")
    assert first["reason"] == "timed out after 0 s"


def test_a_failed_step_is_reported_and_the_next_one_runs(
    options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    needy = replace(STEPS["counters"], programs=("no_such_program",))
    code, (first, second) = run_steps({"program": STEPS["program"], "counters": needy}, options)
    assert (code, first["status"], second["status"]) == (1, "broken", "skipped")
    assert first["reason"].startswith("exit code 1: ")
    assert (options.out / "log.txt").read_text().startswith("== program\nTraceback")
    assert second["reason"] == "not installed: no_such_program"
    assert sorted(path.name for path in options.out.iterdir()) == ["log.txt", "results.json", "results.md"]


def test_what_a_killed_command_had_measured_is_in_its_folder(
    options: argparse.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(command: list[str], seconds: float, log: Path) -> tuple[int | None, str]:
        Path(command[command.index("--json") + 1]).write_text('{"lines": ["3 TB/s"], "failed": [], "rate": 3}')
        raise KeyboardInterrupt

    monkeypatch.setattr(device, "process", killed)
    with pytest.raises(KeyboardInterrupt):
        run_steps({"probes": STEPS["probes"]}, options)
    assert [path.name for path in options.out.iterdir()] == ["probes.json"]
    result = merge([options.out], options.out.parent / "merged")["probes"]
    assert (result.status, result.lines, result.figures) == ("broken", ["3 TB/s"], {"rate": 3})
    assert result.reason == "the visit ended during it"


def test_no_step_begins_after_the_time_limit(options: argparse.Namespace) -> None:
    options.seconds = 0.0
    code, (row,) = run_steps({"environment": STEPS["environment"]}, options)
    assert (code, row["status"]) == (0, "skipped")
    assert "--seconds" in row["reason"]

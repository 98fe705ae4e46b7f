"""Steps of `benchmarks.device`, each run in its own process.

``python -m benchmarks.device.steps NAME --rows N --events N --json FILE`` runs one. FILE is updated during the step, so
a step that is killed at its time limit leaves partial results.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

from benchmarks.device.processes import ROOT, run_python
from benchmarks.device.results import attempt, replace
from gpupipe.files.jsonfile import dumps

CLOCKS = ("--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,clocks.max.sm", "--format=csv,noheader")
CLUSTER_SHARE = 10  # a cluster gets rows // CLUSTER_SHARE rows, because they are generated on the host
BATCHES_TIMES = 10
BATCHES_TURNS = 3
BATCHES_SECONDS = 2.0

Save = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class DeviceStep:
    """One step.

    Attributes
    ----------
    title : str
        What it measures.
    run : callable
        ``(options, save) -> document``, with ``lines`` of text and a list of problems, ``failed``.
    seconds : int
        Time limit.
    packages : tuple of str
        Required modules.
    programs : tuple of str
        Required programs on PATH.
    """

    title: str
    run: Callable[[argparse.Namespace, Save], Mapping[str, Any]]
    seconds: int
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()

    def obstacle(self) -> str:
        """Return the reason that the step cannot run here, or ``""``."""
        missing = [name for name in self.packages if find_spec(name) is None]
        missing += [name for name in self.programs if which(name) is None]
        return f"not installed: {', '.join(missing)}" if missing else ""


def environment(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return the description of the machine and the doctor's findings."""
    from gpupipe.backends import device_report
    from gpupipe.bench.measurement import describe_machine

    gpu, machine = device_report().gpu, describe_machine()
    clocks = ""
    if smi := which("nvidia-smi"):
        clocks = subprocess.run([smi, *CLOCKS], capture_output=True, text=True, check=False).stdout.strip()
    lines = [
        f"{gpu.name or gpu.reason}, driver {gpu.driver}",
        clocks,
        f"{machine['cpu']}, {machine['threads']} threads",
    ]
    found = {"gpu": gpu.name, "driver": gpu.driver, "clocks": clocks, "machine": machine}
    save({**found, "lines": lines})
    done = run_python("-m", "gpupipe", "doctor", "--json")
    doctor: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"exit_code": done.returncode, "findings": []}
    lines += [f"{f['level']}: {f['check']}: {f['found']}" for f in doctor["findings"]]
    failed = [] if doctor["exit_code"] == 0 else [f"the doctor ended with exit code {doctor['exit_code']}"]
    return {**found, "lines": lines, "failed": failed, "doctor": doctor}


def program(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return one launch's share of the copy bandwidth for 20 columns, in both orders."""
    from benchmarks.device.program import ORDERS, bytes_per_row, copy_of_memory, program_line, run_program
    from benchmarks.device.twenty_columns import twenty_columns
    from gpupipe.backends import device_report

    memory, twenty = device_report().gpu.memory_bytes, twenty_columns()
    copied = copy_of_memory(memory)
    made: list[dict[str, Any]] = []
    n_rows = min(options.rows, memory * 3 // 4 // bytes_per_row(twenty))
    lines = [f"copy: {copied / 1e9:,.0f} GB/s, read and written"]
    document: dict[str, Any] = {"copy_bytes_per_second": copied, "program": made, "lines": lines, "failed": []}
    save(document)
    for order in ORDERS:
        with attempt(order, document):
            figures = run_program(twenty, n_rows, order)
            made.append({**figures, "share_of_copy": figures["bytes_per_second"] / copied})
            lines.append(program_line(made[-1]))
        save(document)
    return document


def keyed(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Compare keyed features with cuDF's."""
    from benchmarks.device.keyed import compare, failure_of, line_of

    document: dict[str, Any] = {"lines": [], "failed": [], "keyed": []}
    for row in compare(options.events):
        document["keyed"].append(row)
        document["lines"].append(line_of(row))
        document["failed"] += filter(None, [failure_of(row)])
        save(document)
    return document


def cluster(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Compare the features of workers, one per GPU, with those of one process."""
    from benchmarks.device.cluster import compare, line_of
    from gpupipe.config import load_config
    from gpupipe.config.cluster import ClusterSettings

    config = load_config(ROOT / "configs" / "churn.yaml", [f"source.rows={options.rows // CLUSTER_SHARE}"])
    found = compare(config, "gpu", ClusterSettings(scheduler="local"))
    return {**found, "lines": [line_of(found)], "failed": found["differences"]}


def churn(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Compare features and XGBoost of customers generated on the GPU, without RAPIDS: hand-written, and the CPU's."""
    from benchmarks.device.end_to_end import compare_generated

    return compare_generated(options.rows, save)


def end_to_end(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Compare reading, features and XGBoost from end to end: gpupipe, hand-written, and all cores of the host."""
    from benchmarks.device.end_to_end import compare_files

    return compare_files(options.rows, save)


def batches(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Compare mini-batches with PyTorch's loaders, and return the share of time between training steps."""
    from benchmarks.batches.__main__ import BATCH_SIZE, COLUMNS, ROWS, compare, text_of

    def told(figures: Mapping[str, Any]) -> dict[str, Any]:
        times = figures["ours_times"].get("DataLoader")
        slow = times is not None and times < BATCHES_TIMES
        failed = (
            [f"expected at least {BATCHES_TIMES} times the rows per second of PyTorch's DataLoader, found {times:.1f}"]
            if slow
            else []
        )
        return {"lines": text_of(figures).splitlines(), "failed": failed, **figures}

    shape = ROWS, COLUMNS, BATCH_SIZE
    return told(compare(*shape, BATCHES_TURNS, BATCHES_SECONDS, "cuda", lambda figures: save(told(figures))))


def _part(module: str, function: str) -> Callable[[argparse.Namespace, Save], Mapping[str, Any]]:
    """Return a step that is a function of `save` in a module, imported when it runs: a broken module stops no other."""

    def run(options: argparse.Namespace, save: Save) -> Mapping[str, Any]:
        found: Mapping[str, Any] = getattr(import_module(f"benchmarks.device.{module}"), function)(save)
        return found

    return run


TESTS = ("pytest", "xdist")
RAPIDS = ("cudf", "rmm")
# In order of value per second.
STEPS: dict[str, DeviceStep] = {
    "environment": DeviceStep("Machine and doctor's findings", environment, 30),
    "probes": DeviceStep("First checks", _part("probes", "run_probes"), 40),
    "program": DeviceStep("20 columns in one launch, relative to a copy", program, 50),
    "kernels": DeviceStep("Tests of kernels and mini-batches", _part("suite", "run_kernel_tests"), 75, TESTS),
    "counters": DeviceStep("Hardware counters of one launch", _part("profilers", "count"), 40, programs=("ncu",)),
    "batches": DeviceStep("Mini-batches compared with PyTorch's loaders", batches, 35, ("torch",)),
    "sanitizer": DeviceStep(
        "Every kernel under memcheck and racecheck", _part("profilers", "sanitize"), 60, programs=("compute-sanitizer",)
    ),
    "churn": DeviceStep("Generated customers from end to end", churn, 110, ("xgboost",)),
    "tests": DeviceStep("Tests that need a GPU without RAPIDS", _part("suite", "run_tests"), 70, TESTS),
    "networks": DeviceStep("Networks in float32 and bfloat16", _part("networks", "compare_networks"), 60, ("torch",)),
    "features": DeviceStep("Features, GPU compared with CPU", _part("comparisons", "compare_features"), 45),
    "end_to_end": DeviceStep(
        "Reading, features and XGBoost from end to end", end_to_end, 110, ("xgboost", "pyarrow", *RAPIDS)
    ),
    "keyed": DeviceStep("Keyed features compared with cuDF's", keyed, 30, ("cudf", "cupy")),
    "reading": DeviceStep("Tests that need cuDF", _part("suite", "run_reading_tests"), 60, (*TESTS, *RAPIDS)),
    "models": DeviceStep(
        "Models, GPU compared with CPU", _part("comparisons", "compare_models"), 150, ("xgboost", "cuml", *RAPIDS)
    ),
    "cluster": DeviceStep(
        "Local cluster compared with one process", cluster, 120, ("distributed", "dask_cuda", *RAPIDS)
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one step and write its document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device.steps")
    parser.add_argument("step", choices=list(STEPS))
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    save = partial(_save, options.json)
    save({**STEPS[options.step].run(options, save), "ended": True})
    return 0


def _save(path: Path, document: Mapping[str, Any]) -> None:
    replace(path, dumps(document))


if __name__ == "__main__":
    sys.exit(main())

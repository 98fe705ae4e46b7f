"""Steps of `benchmarks.device`, each run in its own process.

``python -m benchmarks.device.steps NAME --rows N --events N --json FILE`` runs one. FILE is updated during the step, so
a step that is killed at its time limit leaves partial results.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.device.comparisons import compare_features, compare_models
from benchmarks.device.processes import ROOT, run_python, stream_python
from benchmarks.device.results import replace
from benchmarks.device.suite import run_network_tests, run_tests
from gpupipe.errors import GpupipeError
from gpupipe.pipeline.jsonfile import dumps

KERNEL_ROWS = 10_000  # few, because the references of keyed kernels are Python loops
ACCELERATOR_SHARE = 10  # host scripts get rows // ACCELERATOR_SHARE rows
CLUSTER_SHARE = 10  # a cluster gets rows // CLUSTER_SHARE rows, because they are generated on the host
BATCHES_TIMES, BATCHES_TURNS, BATCHES_SECONDS = 10, 3, 2.0

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
    """

    title: str
    run: Callable[[argparse.Namespace, Save], Mapping[str, Any]]
    seconds: int
    packages: tuple[str, ...] = ()

    def obstacle(self) -> str:
        """Return the reason that the step cannot run here, or ``""``."""
        missing = [name for name in self.packages if find_spec(name) is None]
        return f"not installed: {', '.join(missing)}" if missing else ""


def environment(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return the description of the machine and the doctor's findings."""
    from gpupipe.backends import device_report
    from gpupipe.bench.machine import describe_machine

    done = run_python("-m", "gpupipe", "doctor", "--json")
    doctor: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"exit_code": done.returncode, "findings": []}
    gpu = device_report().gpu
    machine: dict[str, Any] = describe_machine()
    found = [f"{f['level']}: {f['check']}: {f['found']}" for f in doctor["findings"]]
    lines = [f"{gpu.name}, driver {gpu.driver}", f"{machine['cpu']}, {machine['threads']} threads", *found]
    failed = [] if doctor["exit_code"] == 0 else [f"the doctor ended with exit code {doctor['exit_code']}"]
    return {
        "lines": lines,
        "failed": failed,
        "gpu": gpu.name,
        "driver": gpu.driver,
        "machine": machine,
        "doctor": doctor,
    }


def kernels(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Compare every kernel with its reference on the CPU and on the GPU; save after each kernel."""
    rows: list[dict[str, Any]] = []

    def on_line(line: str) -> None:
        rows.append(json.loads(line))
        save(_kernels_document(rows))

    code, errors = stream_python("-m", "gpupipe_kernels.proof.fuzz", f"--rows={KERNEL_ROWS}", on_line=on_line)
    if not rows:
        raise GpupipeError("the kernels could not be compared:\n" + errors)
    document = _kernels_document(rows)
    if code not in (0, 1):
        document["failed"].append(f"ended with exit code {code} after {rows[-1]['kernel']}: {errors}")
    return document


def _kernels_document(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    sides = [(row["kernel"], side, row[side]["failure"]) for row in rows for side in ("cpu", "device")]
    failed = [f"{kernel} ({side}): {failure}" for kernel, side, failure in sides if failure]
    lines = [f"{len(rows)} kernels on {rows[0]['where']}, {len(failed)} of {len(sides)} comparisons out of tolerance"]
    return {"lines": lines + failed, "failed": failed, "kernels": list(rows)}


def copy(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return the copy bandwidth of the device's memory."""
    from benchmarks.device.program import COPY_BYTES, copy_bandwidth
    from gpupipe.backends import device_report

    rate = copy_bandwidth(min(COPY_BYTES, device_report().gpu.memory_bytes // 4))
    return {"lines": [f"{rate / 1e9:,.0f} GB/s, read and written"], "bytes_per_second": rate}


def program(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return one launch's share of the copy bandwidth for 20 columns: both orders, interpreter and compiled kernel."""
    from benchmarks.device.program import ORDERS, bytes_per_row, program_line, run_program, twenty_columns
    from gpupipe.backends import device_report

    copied = copy(options, save)["bytes_per_second"]
    twenty = twenty_columns()
    made: list[dict[str, Any]] = []
    n_rows = min(options.rows, device_report().gpu.memory_bytes * 3 // 4 // bytes_per_row(twenty))
    document: dict[str, Any] = {"copy_bytes_per_second": copied, "program": made, "lines": []}
    for order, specialised in product(ORDERS, (False, True)):
        figures = run_program(twenty, n_rows, order, specialised)
        made.append({**figures, "share_of_copy": figures["bytes_per_second"] / copied})
        document["lines"].append(program_line(made[-1]))
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
    """Compare the features of workers, one per GPU, with those of one process; then run the cluster tests."""
    from benchmarks.device.cluster import compare, line_of
    from benchmarks.device.suite import run_cluster_tests
    from gpupipe.config import load_config
    from gpupipe.config.cluster import ClusterSettings

    config = load_config(ROOT / "configs" / "churn.yaml", [f"source.rows={options.rows // CLUSTER_SHARE}"])
    found = compare(config, "gpu", ClusterSettings(scheduler="local"))
    compared = {**found, "lines": [line_of(found)], "failed": found["differences"]}
    save(compared)

    def merged(tests: Mapping[str, Any]) -> dict[str, Any]:
        failed = [*compared["failed"], *tests.get("failed", [])]
        return {**compared, **tests, "lines": [*compared["lines"], *tests["lines"]], "failed": failed}

    return merged(run_cluster_tests(options, lambda document: save(merged(document))))


def end_to_end(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Compare reading, features and XGBoost from end to end: gpupipe, hand-written, and all cores of the host."""
    from benchmarks.device.end_to_end import END_TO_END

    return _compare_end_to_end(END_TO_END, options.rows, save)


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


def accelerators(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Measure host scripts under cudf.pandas and cuml.accel."""
    from benchmarks.device.end_to_end import ACCELERATORS

    return _compare_end_to_end(ACCELERATORS, max(1, options.rows // ACCELERATOR_SHARE), save)


def _compare_end_to_end(implementations: Sequence[Any], n_rows: int, save: Save) -> dict[str, Any]:
    from benchmarks.device.end_to_end import compare, lines_of, shortfalls

    def told(document: Mapping[str, Any]) -> dict[str, Any]:
        return {**document, "lines": lines_of(document), "failed": shortfalls(document)}

    return told(compare(implementations, n_rows, lambda document: save(told(document))))


RAPIDS = ("cudf", "cuml", "cupy", "rmm")
NUMBA = ("numba_cuda",)
# In order of value per second. The limits add up to 28 minutes, of 30 available.
STEPS: dict[str, DeviceStep] = {
    "environment": DeviceStep("Machine and doctor's findings", environment, 40),
    "copy": DeviceStep("Copy bandwidth of the device", copy, 20, NUMBA),
    "program": DeviceStep("20 columns in one launch", program, 60, NUMBA),
    "kernels": DeviceStep("Every kernel compared with its reference", kernels, 120, NUMBA),
    "end_to_end": DeviceStep("Reading, features and XGBoost from end to end", end_to_end, 360, ("xgboost", *RAPIDS)),
    "features": DeviceStep("Features, GPU compared with CPU", compare_features, 80, (*NUMBA, *RAPIDS)),
    "models": DeviceStep("Models, GPU compared with CPU", compare_models, 150, (*NUMBA, "xgboost", *RAPIDS)),
    "keyed": DeviceStep("Keyed features compared with cuDF's", keyed, 70, (*NUMBA, "cudf", "cupy")),
    "batches": DeviceStep("Mini-batches compared with PyTorch's loaders", batches, 60, ("torch",)),
    "suite": DeviceStep("Tests that need a GPU", run_tests, 270, ("pytest", "xdist", *RAPIDS)),
    "networks": DeviceStep("Tests of networks", run_network_tests, 150, ("pytest", "xdist", "torch", *RAPIDS)),
    "cluster": DeviceStep(
        "Local cluster", cluster, 180, ("pytest", "xdist", *NUMBA, "distributed", "dask_cuda", *RAPIDS)
    ),
    "accelerators": DeviceStep(
        "Host scripts under cudf.pandas and cuml.accel", accelerators, 120, ("xgboost", *RAPIDS)
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one step and write its document."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device.steps")
    parser.add_argument("step", choices=list(STEPS))
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--skip-tests", default="", metavar="WORDS")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    save = partial(_save, options.json)
    save({**STEPS[options.step].run(options, save), "ended": True})
    return 0


def _save(path: Path, document: Mapping[str, Any]) -> None:
    replace(path, dumps(document))


if __name__ == "__main__":
    sys.exit(main())

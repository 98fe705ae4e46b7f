"""What `gpupipe.bench.device` does on a GPU machine, step by step; each step runs in a process of its own.

``python -m gpupipe.bench.device.steps NAME --rows N --events N --json FILE`` runs one. What it knows by then is in FILE
whenever it is cut off.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpupipe.bench.device.results import replace
from gpupipe.errors import GpupipeError
from gpupipe.pipeline.jsonfile import dumps

ROOT = Path(__file__).parents[3]
SUITE = ROOT / "tests" / "gpu"
PARITY_ROWS = 10_000  # the references of keyed kernels are loops in Python
FEATURE_ROWS = 100_000
FEATURE_TOLERANCE, METRIC_TOLERANCE = 2e-5, 0.003
SUITE_PROCESSES = 4  # they share one GPU
SUITE_SECONDS, SALVAGE_SECONDS = 400, 15  # of the step; kept to write down what a suite that takes too long has said
ACCELERATOR_SHARE = 10  # of the rows, the part that scripts for the host are given
CLUSTER_SHARE = 10  # of the rows, the part that is shared by a cluster: they are generated on the host
BATCHES_TIMES = 10
PUBLIC = ("telco", "adult")
MODELS = ("logistic_regression", "random_forest", "xgboost", "knn", "gaussian_nb")

Save = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes
    ----------
    title : str
        What it measures, for people.
    run : callable
        ``(options, save) -> document``; ``lines`` of it are for people, ``failed`` holds what is not as it should be.
    seconds : int
        How long it may take.
    packages : tuple of str
        Modules that it needs.
    """

    title: str
    run: Callable[[argparse.Namespace, Save], Mapping[str, Any]]
    seconds: int
    packages: tuple[str, ...] = ()

    def obstacle(self) -> str:
        """Return why the step cannot run here, or ``""``."""
        missing = [name for name in self.packages if find_spec(name) is None]
        return f"not installed: {', '.join(missing)}" if missing else ""


def environment(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return what the machine is, and what the doctor says of it."""
    from gpupipe.backends import device_report
    from gpupipe.bench.machine import describe_machine

    done = _python("-m", "gpupipe", "doctor", "--json")
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
    """Return how every kernel compares with its reference, on the CPU and on the GPU."""
    done = _python("-m", "gpupipe_kernels.proof.fuzz", f"--rows={PARITY_ROWS}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode not in (0, 1) or not rows:
        raise GpupipeError("the kernels could not be compared:\n" + _tail(done.stderr))
    sides = [(row["kernel"], side, row[side]["failure"]) for row in rows for side in ("cpu", "device")]
    failed = [f"{kernel} ({side}): {failure}" for kernel, side, failure in sides if failure]
    lines = [f"{len(rows)} kernels on {rows[0]['where']}, {len(failed)} of {len(sides)} comparisons out of tolerance"]
    return {"lines": lines + failed, "failed": failed, "kernels": rows}


def copy(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return what the memory of the device can do."""
    from gpupipe.backends import device_report
    from gpupipe.bench.device.program import COPY_BYTES, copy_bandwidth

    rate = copy_bandwidth(min(COPY_BYTES, device_report().gpu.memory_bytes // 4))
    return {"lines": [f"{rate / 1e9:,.0f} GB/s, read and written"], "bytes_per_second": rate}


def program(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return how near one launch for 20 columns comes to the copy bandwidth, in both orders of the matrix."""
    from gpupipe.backends import device_report
    from gpupipe.bench.device.program import ORDERS, bytes_per_row, program_line, run_program, twenty_columns

    copied = copy(options, save)["bytes_per_second"]
    twenty = twenty_columns()
    made: list[dict[str, Any]] = []
    n_rows = min(options.rows, device_report().gpu.memory_bytes * 3 // 4 // bytes_per_row(twenty))
    document: dict[str, Any] = {"copy_bytes_per_second": copied, "program": made, "lines": []}
    for order in ORDERS:
        figures = run_program(twenty, n_rows, order)
        made.append({**figures, "share_of_copy": figures["bytes_per_second"] / copied})
        document["lines"].append(program_line(made[-1]))
        save(document)
    return document


def suite(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return what the tests that need a GPU say; none may be skipped for want of one."""
    if not SUITE.is_dir():
        return {"lines": [], "failed": ["the tests are not in the wheel: run this from the checkout"]}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "junit.xml"
        try:
            done = _python(
                "-m", "pytest", "-m", "gpu", "--require-gpu", "-v", "-n", str(SUITE_PROCESSES), "--dist", "loadfile",
                "-p", "no:cacheprovider", "--durations=15", "--junitxml", str(report), str(SUITE),
                seconds=SUITE_SECONDS - SALVAGE_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired as cut:
            return _suite_document((cut.stdout or b"").decode(errors="replace"), "", f"not done: {cut}")
        junit = report.read_text(encoding="utf8") if report.exists() else ""
    verdict = (done.stdout.strip().splitlines() or [_tail(done.stderr)])[-1]
    return _suite_document(done.stdout, junit, verdict if done.returncode else "")


def _suite_document(said: str, junit: str, failure: str) -> dict[str, Any]:
    """Return what pytest said: what failed and was skipped, and its verdict."""
    told = said.strip().splitlines()
    lines = [line for line in told if line.startswith(("FAILED", "ERROR", "SKIPPED"))]
    lines += [line for line in told if failure.startswith("not done") and " FAILED " in line]  # as they happened
    failed = [failure] if failure else []
    return {"lines": [*lines, *told[-1:]], "failed": failed, "junit": junit, "output": said[-100_000:]}


def keyed(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return keyed features beside cuDF's."""
    from gpupipe.bench.device.keyed import compare, failure_of, line_of

    document: dict[str, Any] = {"lines": [], "failed": [], "keyed": []}
    for row in compare(options.events):
        document["keyed"].append(row)
        document["lines"].append(line_of(row))
        document["failed"] += filter(None, [failure_of(row)])
        save(document)
    return document


def parity(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return how far ops and models on the GPU are from those on the CPU."""
    document: dict[str, Any] = {"lines": [], "failed": [], "ops": {}, "models": {}}
    for name, config in _parity_configs():
        _compare_features(name, config, document)
        save(document)
    for name, config in _parity_configs():
        for model in MODELS if name in PUBLIC else ():
            _compare_model(name, model, config, document)
            save(document)
    return document


def _parity_configs() -> list[tuple[str, Any]]:
    from gpupipe.config import load_config

    found = [
        (name, load_config(ROOT / "configs" / f"{name}.yaml")) for name in PUBLIC if os.environ.get("GPUPIPE_DATA")
    ]
    return [*found, ("churn", load_config(ROOT / "configs" / "churn.yaml", [f"source.rows={FEATURE_ROWS}"]))]


def _compare_features(name: str, config: Any, document: dict[str, Any]) -> None:
    from gpupipe.bench.device.parity import DEVICES, errors_by_op, fitted, job_of

    jobs = {device: job_of(config, device) for device in DEVICES}
    for view in ("codes", "dense"):
        errors = errors_by_op(*(fitted(jobs[device], view) for device in DEVICES))
        document["ops"][f"{name}, {view}"] = errors
        for op, error in errors.items():
            document["lines"].append(f"{name}, {view}, {op}: largest error {error:.1e}")
            if error > FEATURE_TOLERANCE:
                document["failed"].append(f"{name}: {op} is off by {error:.1e}")


def _compare_model(name: str, model: str, config: Any, document: dict[str, Any]) -> None:
    from gpupipe.bench.device.parity import metric_gap, metrics_of
    from gpupipe.config import ModelEntry

    entry = next((e for e in config.models if e.name == model), None) or ModelEntry(name=model)
    found = metrics_of(config.model_copy(update={"models": (entry,)}))
    metric = next(iter(found["cpu"]))
    document["models"][f"{name}, {model}"] = found
    both = f"{metric} {found['gpu'][metric]:.5f} on the GPU, {found['cpu'][metric]:.5f} on the CPU"
    document["lines"].append(f"{name}, {model}: {both}")
    if metric_gap(found, metric) > METRIC_TOLERANCE:
        document["failed"].append(f"{name}: {model}: {both}")


def cluster(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return whether the workers of a cluster, one on each GPU, make the features that one process makes."""
    from gpupipe.bench.device.cluster import compare, line_of
    from gpupipe.config import load_config
    from gpupipe.config.cluster import ClusterSettings

    config = load_config(ROOT / "configs" / "churn.yaml", [f"source.rows={options.rows // CLUSTER_SHARE}"])
    found = compare(config, "gpu", ClusterSettings(scheduler="local"))
    return {"lines": [line_of(found)], "failed": found["differences"], **found}


def end_to_end(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return the seconds of reading, features and XGBoost: ours, by hand, and all cores of the host."""
    from gpupipe.bench.device.contest import END_TO_END

    return _contest(END_TO_END, options.rows, save)


def batches(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return how fast mini-batches come beside PyTorch's own loaders, and how long the device waits between steps."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batches.json"
        done = _python("-m", "gpupipe.bench.batches", "--device", "cuda", "--json", str(path))
        if done.returncode or not path.exists():
            raise GpupipeError("mini-batches could not be measured:\n" + _tail(done.stderr))
        figures = json.loads(path.read_text(encoding="utf8"))
    times = figures["ours_times"]["DataLoader"]
    failed = [] if times >= BATCHES_TIMES else [f"{times:.1f} times PyTorch's DataLoader; {BATCHES_TIMES} are wanted"]
    return {"lines": done.stdout.splitlines(), "failed": failed, **figures}


def accelerators(options: argparse.Namespace, save: Save) -> dict[str, Any]:
    """Return what cudf.pandas and cuml.accel make of a script for the host."""
    from gpupipe.bench.device.contest import ACCELERATORS

    return _contest(ACCELERATORS, max(1, options.rows // ACCELERATOR_SHARE), save)


def _contest(contestants: Sequence[Any], n_rows: int, save: Save) -> dict[str, Any]:
    from gpupipe.bench.device.contest import contest, lines_of, shortfalls

    def told(document: Mapping[str, Any]) -> dict[str, Any]:
        return {**document, "lines": lines_of(document), "failed": shortfalls(document)}

    return told(contest(contestants, n_rows, lambda document: save(told(document))))


def _python(*arguments: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}  # the gpupipe that we are
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds
    )


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-12:])


RAPIDS = ("cudf", "cuml", "cupy", "rmm")
# In the order of what is most worth knowing, should there be no time for all of them.
STEPS: dict[str, Step] = {
    "environment": Step("The machine, and what the doctor says", environment, 60),
    "kernels": Step("Every kernel against its reference", kernels, 150, ("numba_cuda",)),
    "copy": Step("Copy bandwidth of the device", copy, 45, ("numba_cuda",)),
    "program": Step("20 columns in one launch", program, 90, ("numba_cuda",)),
    "suite": Step("The tests that need a GPU", suite, SUITE_SECONDS, ("pytest", "xdist", *RAPIDS)),
    "keyed": Step("Keyed features beside cuDF's", keyed, 120, ("numba_cuda", "cudf", "cupy")),
    "parity": Step("Ops and models, GPU beside CPU", parity, 240, ("numba_cuda", *RAPIDS)),
    "cluster": Step(
        "Features by a cluster of this machine", cluster, 180, ("numba_cuda", "distributed", "dask_cuda", *RAPIDS)
    ),
    "batches": Step("Mini-batches beside PyTorch's loaders", batches, 120, ("torch",)),
    "end_to_end": Step("Reading, features and XGBoost from end to end", end_to_end, 500, ("xgboost", *RAPIDS)),
    "accelerators": Step(
        "Scripts for the host under cudf.pandas and cuml.accel", accelerators, 300, ("xgboost", *RAPIDS)
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one step and leave its document."""
    parser = argparse.ArgumentParser(prog="python -m gpupipe.bench.device.steps")
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

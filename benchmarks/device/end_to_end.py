"""Reading, features and XGBoost from end to end: gpupipe on the GPU, a hand-written GPU script, and host scripts.

Each implementation runs in its own process. The first run includes lazy imports and kernel compilation; the second
does not.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.device import processes
from benchmarks.device.comparisons import METRIC_TOLERANCE
from benchmarks.device.parity import compute_metrics, metric_gap
from benchmarks.device.recorded_metrics import recorded
from benchmarks.device.results import attempt
from benchmarks.device.workload import generated_source, read_source, write_config, write_data
from gpupipe.backends import device_report
from gpupipe.children import python_command
from gpupipe.config import Config, load_config
from gpupipe.report.text import last_lines

GPUPIPE = "gpupipe, GPU"
BY_HAND = "by hand, GPU"
OURS_ON_CPU = "gpupipe, CPU"
POLARS = "polars + XGBoost, CPU"
SPEED_UP, SHARE_OF_BY_HAND = 5.0, 0.8  # targets: over the fastest on the host, of the hand-written script's time
SLOW_SECONDS = 180  # time limit of one implementation
COMPARED_ROWS = 1_000_000  # of the metrics that the CPU computes in advance
AUC_GAP = 0.005  # tolerance, since splits and folds are drawn differently
PEERS = Path(__file__).parents[1] / "peers"

Save = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Implementation:
    """A program that runs the workload.

    Attributes
    ----------
    name : str
    arguments : tuple of str
        Arguments of Python; `{data}`, `{config}` and `{rows}` stand for the folder of files, gpupipe's configuration
        and the number of rows.
    repeat : int
        Number of repetitions in one process.
    packages : tuple of str
        Required modules; the implementation is skipped if one is missing.
    """

    name: str
    arguments: tuple[str, ...]
    repeat: int = 2
    packages: tuple[str, ...] = ()

    def obstacle(self) -> str:
        """Return the reason that it cannot run here, or ``""``."""
        missing = [name for name in self.packages if find_spec(name) is None]
        return f"not installed: {', '.join(missing)}" if missing else ""


def _ours(device: str) -> tuple[str, ...]:
    fallback = ("--set", "fallback=forbid") if device == "gpu" else ()
    return ("-m", "gpupipe.bench.child", "stages", "{config}", "--set", f"device={device}", *fallback)


def _script(name: str, *before: str) -> tuple[str, ...]:
    return (*before, str(PEERS / f"{name}.py"), "--data", "{data}")


END_TO_END = (
    Implementation(GPUPIPE, _ours("gpu")),
    Implementation(BY_HAND, _script("churn_cudf")),
    Implementation(POLARS, _script("churn_polars"), repeat=1, packages=("polars",)),
    Implementation(OURS_ON_CPU, _ours("cpu"), repeat=1),
)
GENERATED = (
    Implementation(GPUPIPE, _ours("gpu")),
    Implementation(BY_HAND, (str(PEERS / "churn_cupy.py"), "--rows", "{rows}"), packages=("cupy",)),
)


def compare_files(n_rows: int, save: Save) -> dict[str, Any]:
    """Compare all implementations on customers read from Parquet files."""
    with TemporaryDirectory(prefix="gpupipe-bench-") as name:
        folder = Path(name)
        write_data(folder / "data", n_rows, device_report().n_threads)
        source = read_source(folder / "data")
        return _judged(compare(END_TO_END, n_rows, folder, source, lambda document: save(_judged(document))))


def compare_generated(n_rows: int, save: Save) -> dict[str, Any]:
    """Compare implementations that need no RAPIDS on customers generated on the GPU; metrics also with the CPU's."""
    with TemporaryDirectory(prefix="gpupipe-bench-") as name:
        timed = compare(GENERATED, n_rows, Path(name), generated_source(n_rows), lambda one: save(_judged(one)))
    document = _judged(timed)
    save(document)
    with attempt(f"metrics of {COMPARED_ROWS:,} rows", document):
        gpu, config = compute_metrics(_compared(), "gpu"), _compared()
        found = document["metrics"] = {"gpu": gpu, "cpu": recorded(config) or compute_metrics(config, "cpu")}
        scores = f"ROC-AUC {gpu['roc_auc']:.5f} on the GPU, {found['cpu']['roc_auc']:.5f} on the CPU"
        document["lines"].append(f"{COMPARED_ROWS:,} rows: {scores}")
        if metric_gap(found, "roc_auc") > METRIC_TOLERANCE:
            document["failed"].append(f"{COMPARED_ROWS:,} rows: {scores}")
    return document


def compared_configurations() -> Iterator[tuple[str, Config]]:
    """Yield title and configuration of the run whose metrics `compare_generated` compares with the CPU's."""
    yield f"churn, {COMPARED_ROWS:,} rows, xgboost", _compared()


def _compared() -> Config:
    with TemporaryDirectory() as folder:
        return load_config(write_config(Path(folder), generated_source(COMPARED_ROWS)))


def _judged(document: Mapping[str, Any]) -> dict[str, Any]:
    return {**document, "lines": lines_of(document), "failed": shortfalls(document)}


def compare(
    implementations: Sequence[Implementation], n_rows: int, folder: Path, source: str, save: Save
) -> dict[str, Any]:
    """Run each implementation on `n_rows` generated customers.

    Parameters
    ----------
    implementations : sequence of Implementation
    n_rows : int
    folder : Path
        For the configuration and results; ``data`` in it contains the files, if any are read.
    source : str
        Part of gpupipe's configuration: where the customers come from.
    save : callable
        Called with the document after each of them.

    Returns
    -------
    dict
        ``rows``, and ``implementations``: name to its samples, to the end of its stderr if it failed, or to the reason
        that it was skipped.
    """
    found: dict[str, Any] = {}
    document = {"rows": n_rows, "implementations": found}
    places = {"{data}": str(folder / "data"), "{config}": str(write_config(folder, source)), "{rows}": str(n_rows)}
    for implementation in implementations:
        if obstacle := implementation.obstacle():
            found[implementation.name] = {"skipped": obstacle}
        else:
            found[implementation.name] = _run(implementation, places, folder / "out.json")
        save(document)
    return document


def _run(implementation: Implementation, places: Mapping[str, str], out: Path) -> dict[str, Any]:
    arguments = [
        reduce(lambda text, place: text.replace(*place), places.items(), part) for part in implementation.arguments
    ]
    command = python_command(*arguments, "--repeat", str(implementation.repeat), "--json", str(out))
    out.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            command,
            env=processes.environment(),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=SLOW_SECONDS,
        )
        said = f"exit code {done.returncode}: " + last_lines(done.stderr)
    except subprocess.TimeoutExpired:
        said = f"timed out after {SLOW_SECONDS} s"
    document = json.loads(out.read_text(encoding="utf8")) if out.exists() else {}
    return {"samples": document["samples"]} if "samples" in document else {"error": str(document.get("error", said))}


def seconds(document: Mapping[str, Any], name: str) -> float | None:
    """Return the least seconds of an implementation from end to end; None if it never finished."""
    samples = document["implementations"].get(name, {}).get("samples", [])
    return min((sample["total_s"] for sample in samples), default=None)


def lines_of(document: Mapping[str, Any]) -> list[str]:
    """Return the document as lines of text: each implementation, and ratios for those that finished."""
    lines = [f"{document['rows']:,} rows"]
    for name, found in document["implementations"].items():
        if "error" in found:
            lines.append(f"{name}: did not finish: {found['error']}")
            continue
        if "skipped" in found:
            lines.append(f"{name}: skipped: {found['skipped']}")
            continue
        times = ", then ".join(f"{sample['total_s']:.2f} s" for sample in found["samples"])
        last = found["samples"][-1]
        stages = ", ".join(f"{stage} {value:.2f}" for stage, value in last["stages_s"].items())
        lines.append(f"{name}: {times} (ROC-AUC {_auc(last):.4f}; {stages})")
    ours = seconds(document, GPUPIPE)
    if ours is None:
        return lines
    for name in document["implementations"]:
        if name != GPUPIPE and (theirs := seconds(document, name)) is not None:
            lines.append(f"{GPUPIPE}: {theirs / ours:.2f} times as fast as {name}")
    return lines


def shortfalls(document: Mapping[str, Any]) -> list[str]:
    """Return the missed targets, and results that disagree."""
    found = [f"{name} did not finish" for name, one in document["implementations"].items() if "error" in one]
    ours, by_hand = seconds(document, GPUPIPE), seconds(document, BY_HAND)
    host = [s for name in (POLARS, OURS_ON_CPU) if (s := seconds(document, name)) is not None]
    if ours is not None and host and min(host) / ours < SPEED_UP:
        found.append(
            f"expected {SPEED_UP:.0f} times the speed of the fastest on the host, found {min(host) / ours:.1f}"
        )
    if ours is not None and by_hand is not None and ours / by_hand > SHARE_OF_BY_HAND:
        found.append(f"expected {SHARE_OF_BY_HAND} of the hand-written script's time, found {ours / by_hand:.2f}")
    scores = {name: _auc(one["samples"][-1]) for name, one in document["implementations"].items() if "samples" in one}
    if scores and max(scores.values()) - min(scores.values()) > AUC_GAP:
        low, high = min(scores.values()), max(scores.values())
        found.append(f"the ROC-AUC of XGBoost ranges from {low:.4f} to {high:.4f}: the workloads differ")
    return found


def _auc(sample: Mapping[str, Any]) -> float:
    return float(sample.get("auc", sample.get("roc_auc", float("nan"))))

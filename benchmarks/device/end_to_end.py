"""Reading, features and XGBoost from end to end: gpupipe on the GPU, a hand-written GPU script, and host scripts.

Each implementation runs in its own process. The first run includes lazy imports and kernel compilation; the second
does not.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.device import processes
from benchmarks.device.workload import write_config, write_data
from gpupipe.backends import device_report
from gpupipe.children import python_command
from gpupipe.report.text import last_lines

GPUPIPE, BY_HAND, OURS_ON_CPU, POLARS = "gpupipe, GPU", "by hand, GPU", "gpupipe, CPU", "polars + XGBoost, CPU"
PANDAS, CUDF_PANDAS = "pandas + XGBoost", "the same under cudf.pandas"
SCIKIT_LEARN, CUML_ACCEL = "pandas + scikit-learn", "the same under cuml.accel"
SPEED_UP, SHARE_OF_BY_HAND = 5.0, 0.8  # targets: over the fastest on the host, of the hand-written script's time
SLOW_SECONDS = 180  # time limit of one implementation
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
        Arguments of Python; `{data}` and `{config}` stand for the folder of files and gpupipe's configuration.
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
ACCELERATORS = (
    Implementation(GPUPIPE, _ours("gpu")),
    Implementation(CUDF_PANDAS, _script("churn_pandas", "-m", "cudf.pandas")),
    Implementation(
        CUML_ACCEL, (*_script("churn_pandas", "-m", "cuml.accel", "--disable-uvm"), "--model", "logistic_regression")
    ),
    Implementation(PANDAS, _script("churn_pandas"), repeat=1),
    Implementation(SCIKIT_LEARN, (*_script("churn_pandas"), "--model", "logistic_regression"), repeat=1),
)


def compare(implementations: Sequence[Implementation], n_rows: int, save: Save) -> dict[str, Any]:
    """Run each implementation on `n_rows` generated customers.

    Parameters
    ----------
    implementations : sequence of Implementation
    n_rows : int
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
    with TemporaryDirectory(prefix="gpupipe-bench-") as name:
        folder = Path(name)
        write_data(folder / "data", n_rows, device_report().n_threads)
        config = write_config(folder, folder / "data")
        for implementation in implementations:
            if obstacle := implementation.obstacle():
                found[implementation.name] = {"skipped": obstacle}
                continue
            found[implementation.name] = _run(implementation, folder / "data", config, folder / "out.json")
            save(document)
    return document


def _run(implementation: Implementation, data: Path, config: Path, out: Path) -> dict[str, Any]:
    arguments = [
        part.replace("{data}", str(data)).replace("{config}", str(config)) for part in implementation.arguments
    ]
    command = python_command(*arguments, "--repeat", str(implementation.repeat), "--json", str(out))
    environment = {
        **processes.environment(),
        "CUDF_PANDAS_RMM_MODE": "pool",  # the default, managed memory, can exceed the device's memory
    }
    out.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            command,
            env=environment,
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
    trees = [score for name, score in scores.items() if name not in (SCIKIT_LEARN, CUML_ACCEL)]
    if trees and max(trees) - min(trees) > AUC_GAP:
        found.append(f"the ROC-AUC of XGBoost ranges from {min(trees):.4f} to {max(trees):.4f}: the workloads differ")
    return found


def _auc(sample: Mapping[str, Any]) -> float:
    return float(sample.get("auc", sample.get("roc_auc", float("nan"))))

"""Time of a single prediction on one core: ``python -m benchmarks.single_row``.

Each call takes a dict of raw values and returns a probability; the rows differ, with nulls and levels unseen in
training. The models are those of configs/churn.yaml (XGBoost with 150 trees of depth 4, and logistic regression) and
configs/telco.yaml (XGBoost with 300 trees of depth 3).

``scorer, numba``            `gpupipe.load_scorer`, compiled
``scorer, numpy``            the same without Numba
``scorer, values of pandas`` compiled, with the rows of ``frame.to_dict("records")``
``scorer, values of NumPy``  compiled, with NumPy scalars only
``Model``                    `gpupipe.load_model`, with a list of one dict
``Model, frame of pandas``   the same with a frame of one row
``scikit-learn``             a hand-written pipeline with the same kinds of features and the same model, called with a
                             frame of one row
``skrub``                    its tabular pipeline, with the same model
``XGBoost, trees only``      inplace_predict of gpupipe's trees; the features are computed beforehand
``ONNX Runtime, trees only`` the trees of the scikit-learn pipeline; the features are computed beforehand

Implementations run in their own processes, in alternating order, pinned to one core and with one thread per library.
Percentiles are those of the round with the lowest median, because other work on the machine only adds time; ``all
rounds`` are those of all calls. The first call after the load is measured with an empty cache of compiled code, and
with a filled one. ROC-AUC is that of 20,000 customers not used in training.

The exit code is 1 if a probability of a scorer, or of a frame, differs from that of `gpupipe.Model` in any bit. The
models and peers are kept in the folder ``--work`` and trained if they are absent. Needs scikit-learn, skrub, xgboost,
onnxmltools and onnxruntime, and ``GPUPIPE_DATA``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.single_row.implementations import EQUAL, MODEL, NUMBA, SCORERS, SKLEARN, SKRUB, implementations
from benchmarks.single_row.workloads import WORKLOADS, prepare, read_quality
from gpupipe.bench.measurement import describe_machine
from gpupipe.bench.process import run_child
from gpupipe.errors import GpupipeError
from gpupipe.files.jsonfile import write_json

CALLS = 20_000
ROUNDS = 3
SECONDS = 60.0
THREADS = 16
FIRST_CALLS = 5
THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
QUALITY = {**dict.fromkeys((*EQUAL, MODEL), "run"), SKLEARN: "sklearn", SKRUB: "skrub"}
CHILD = "benchmarks.single_row.child"
TARGETS = {"churn-xgboost": (60.0, 250.0), "churn-logistic": (25.0, None), "telco": (60.0, 250.0)}


def compare(
    folder: Path, workload: str, names: Sequence[str], calls: int, rounds: int, seconds: float, core: int
) -> dict[str, Any]:
    """Return the percentiles of all implementations of a workload, in microseconds.

    A round has `calls` calls of each implementation, or those that `seconds` suffice for.
    """
    import numpy as np

    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    loads = []
    for turn in range(rounds):
        for name in names if turn % 2 == 0 else reversed(names):
            print(f"{workload}, round {turn + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            options = ["--calls", str(calls), "--seconds", str(seconds), "--offset", str(turn * calls)]
            loads.append(os.getloadavg()[0])
            found[name].append(_child(folder, name, options, {core}))
    quality = read_quality(folder)
    described = {}
    for name, runs in found.items():
        best = min(runs, key=lambda run: statistics.median(run["microseconds"]))
        pooled = np.concatenate([run["microseconds"] for run in runs])
        described[name] = {
            "calls": len(pooled),
            "best_round": _percentiles(best["microseconds"]),
            "all_rounds": _percentiles(pooled),
            "rounds": [_percentiles(run["microseconds"]) for run in runs],
            "roc_auc": quality.get(QUALITY.get(name, "")),
        }
    reference = found[MODEL][0]["probabilities"] if MODEL in found else []
    equal = {name: _is_equal(found[name][0]["probabilities"], reference) for name in EQUAL if name in found}
    return {"implementations": described, "equal_to_model": equal, "load_average": loads}


def _is_equal(probabilities: Sequence[float], reference: Sequence[float]) -> bool:
    """Return whether the first calls, as many as there are references, gave the same bits."""
    n = min(len(probabilities), len(reference))
    return list(probabilities[:n]) == list(reference[:n])


def _percentiles(microseconds: Any) -> dict[str, float]:
    import numpy as np

    p50, p90, p99, p999 = np.percentile(microseconds, [50, 90, 99, 99.9]).tolist()
    return {"p50": p50, "p90": p90, "p99": p99, "p99.9": p999}


def first_calls(folder: Path, core: int) -> dict[str, Any]:
    """Return the microseconds of the first call after the load, and the seconds of the load, of both engines.

    ``cold`` is a process without a cache of compiled code; ``warm`` is the median of `FIRST_CALLS` processes after it.
    """
    found = {}
    for name in SCORERS:
        with tempfile.TemporaryDirectory() as cache:
            settings = {"XDG_CACHE_HOME": cache, "NUMBA_CACHE_DIR": ""}
            cold, *warm = (
                _child(folder, name, ["--calls", "1", "--offset", str(turn)], {core}, settings)
                for turn in range(1 + FIRST_CALLS)
            )
        described = {}
        for figure in ("first_microseconds", "load_seconds"):
            described[figure] = {"cold": cold[figure], "warm": statistics.median(run[figure] for run in warm)}
        found[name] = described
    return found


def threads(folder: Path, calls: int, core: int) -> dict[str, Any]:
    """Return the rows per second of `THREADS` threads that share a scorer, and of one, on one core and on all."""
    cores = os.sched_getaffinity(0)
    found: dict[str, Any] = {}
    for place, allowed in (("one core", {core}), (f"{len(cores)} cores", cores)):
        for n_threads in (1, THREADS):
            options = ["--calls", str(calls), "--threads", str(n_threads)]
            found[f"{n_threads} threads, {place}"] = _child(folder, NUMBA, options, allowed)
    return found


def _child(
    folder: Path, name: str, options: Sequence[str], cores: set[int], settings: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the document of a child on the given cores. Children inherit them and the environment."""
    before, environment = os.sched_getaffinity(0), dict(os.environ)
    os.environ.update(dict.fromkeys(THREAD_SETTINGS, "1") | dict(settings or {}))
    os.sched_setaffinity(0, cores)
    try:
        with tempfile.TemporaryDirectory() as out:
            document: dict[str, Any] = run_child([str(folder), name, *options], Path(out) / "out.json", CHILD).document
        return document
    finally:
        os.sched_setaffinity(0, before)
        os.environ.clear()
        os.environ.update(environment)


def text_of(figures: Mapping[str, Any]) -> str:
    """Return the results as tables."""
    machine = figures["machine"]
    lines = [f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}"]
    for workload, found in figures["workloads"].items():
        loads = found["load_average"]
        lines += ["", f"{workload}: microseconds per call; load {min(loads):.1f} to {max(loads):.1f}", ""]
        lines += ["| | calls | p50 | p99 | all rounds: p50 | p99 | times the scorer | ROC-AUC |"]
        lines += ["|---|---:|---:|---:|---:|---:|---:|---:|"]
        ours = found["implementations"].get(NUMBA)
        for name, each in found["implementations"].items():
            best, pooled = each["best_round"], each["all_rounds"]
            times = f"{best['p50'] / ours['best_round']['p50']:.1f}" if ours else ""
            auc = f"{each['roc_auc']:.4f}" if each["roc_auc"] is not None else ""
            columns = [f"{each['calls']:,}", *(f"{run[p]:,.1f}" for run in (best, pooled) for p in ("p50", "p99"))]
            lines.append(f"| {' | '.join([name, *columns, times, auc])} |")
        lines += [
            "",
            *(f"{name}: bits equal to Model: {is_equal}" for name, is_equal in found["equal_to_model"].items()),
        ]
        lines += _targets(workload, found)
        if "first_calls" in found:
            lines += _first_lines(found)
        for name, each in found.get("threads", {}).items():
            lines.append(f"{name}: {each['rows_per_second']:,.0f} rows/s, results equal: {each['equal']}")
    return "\n".join(lines)


def _targets(workload: str, found: Mapping[str, Any]) -> list[str]:
    best = found["implementations"].get(NUMBA, {}).get("best_round")
    if not best:
        return []
    limits = zip(("p50", "p99"), TARGETS[workload], strict=True)
    return [
        f"target {name} <= {limit:.0f} us: {'met' if best[name] <= limit else 'missed'} ({best[name]:.1f} us)"
        for name, limit in limits
        if limit is not None
    ]


def _first_lines(found: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, each in found["first_calls"].items():
        first, load = each["first_microseconds"], each["load_seconds"]
        steady = found["implementations"].get(name)
        ratio = f", {first['warm'] / steady['best_round']['p99']:.1f} x the steady p99" if steady else ""
        lines.append(
            f"{name}: first call {first['warm']:,.0f} us{ratio}, {first['cold']:,.0f} us without cached code; "
            f"load {load['warm']:.2f} s and {load['cold']:.2f} s"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if a probability of a scorer differs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.single_row",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these implementations only")
    parser.add_argument("--calls", type=int, default=CALLS, help=f"calls per round (default: {CALLS})")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"processes per implementation (default: {ROUNDS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"time limit of a round (default: {SECONDS})")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="(default: the last one)")
    parser.add_argument("--work", type=Path, help="folder of models and peers (default: a temporary folder)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this JSON file")
    options = parser.parse_args(arguments)
    figures: dict[str, Any] = {"machine": describe_machine(), "workloads": {}}
    with tempfile.TemporaryDirectory() as temporary:
        try:
            for workload in options.workloads:
                folder = (options.work or Path(temporary)) / workload
                prepare(WORKLOADS[workload], folder)
                names = [name for name in implementations(workload) if not options.only or name in options.only]
                found = compare(folder, workload, names, options.calls, options.rounds, options.seconds, options.core)
                found["first_calls"] = first_calls(folder, options.core)
                found["threads"] = threads(folder, options.calls, options.core)
                figures["workloads"][workload] = found
                if options.json:
                    write_json(options.json, figures)
        except GpupipeError as error:
            print(f"{error.title}: {error}", file=sys.stderr)
            return error.exit_code
    print(text_of(figures))
    equal = [all(found["equal_to_model"].values()) for found in figures["workloads"].values()]
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())

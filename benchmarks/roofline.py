"""Predicted and measured times of stages on the CPU: ``python -m benchmarks.roofline [--fit] [--records FILE]``.

Runs configurations in fresh processes, and compares the CPU time of their stages, of all threads, with the prediction
of `gpupipe gpus`. The rates were fitted to generated customers (``--fit`` runs these, and prints the rates that fit
best); the comparison runs other tables and needs GPUPIPE_DATA. ``--records`` keeps the measurements and continues them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpupipe.config import load_config
from gpupipe.plan.gpu_choice.estimates import measure_core
from gpupipe.plan.gpu_choice.roofline import Peaks
from gpupipe.plan.gpu_choice.stage_times import on_cpu
from gpupipe.plan.gpu_choice.work import Work
from gpupipe.plan.gpu_choice.work_steps import WorkSteps
from gpupipe.plan.preview import preview

ROOT = Path(__file__).parents[1]
SHORTEST = 0.02  # seconds; shorter stages are not shown
FOLD = re.compile(r"^fold \d+ of \d+: ")
QUIET = ("evaluate.importance=false", "report.enabled=false")

CHURN, BENCH = "configs/churn.yaml", "configs/bench_churn.yaml"
MODELS = {
    "lr": "logistic_regression",
    "lbfgs": "{logistic_regression: {solver: lbfgs}}",
    "xgb4": "{xgboost: {defaults: library, n_estimators: 150, max_depth: 4}}",
    "xgb6": "{xgboost: {defaults: library, n_estimators: 60, max_depth: 6}}",
    "xgb300": "{xgboost: {defaults: library, n_estimators: 300, subsample: 0.8, colsample_bytree: 0.8}}",
    "hgb31": "{hist_gradient_boosting: {defaults: library, max_iter: 80}}",
    "hgb5": "{hist_gradient_boosting: {defaults: library, max_iter: 150, max_leaf_nodes: 5}}",
    "lgb": "{lightgbm: {defaults: library, n_estimators: 100}}",
    "rf10": "{random_forest: {defaults: library, n_estimators: 50, max_depth: 10}}",
}
TABLES = ("telco", "bike_sharing", "diamonds", "chicago_taxi", "adult", "nyc_taxi", "online_retail")
Run = tuple[str, list[str], dict[str, str]]  # configuration, overrides, environment


def checked(folder: Path) -> dict[str, Run]:
    """Return the runs that the rates are checked with: public tables, and customers in a Parquet file."""
    file = {"CHURN_FILE": str(folder / "churn.parquet")}
    found: dict[str, Run] = {name: (f"configs/{name}.yaml", [], {}) for name in TABLES}
    return found | {f"bench_churn, {m}": (BENCH, [f"models=[{MODELS[m]}]"], file) for m in ("lr", "xgb6", "hgb31")}


def fitted() -> dict[str, Run]:
    """Return the runs that the rates are fitted to: generated customers of several sizes, one model each."""
    sizes = (5_000, 20_000, 100_000, 300_000)
    return {f"{m}, {n:,}": (CHURN, [f"models=[{MODELS[m]}]"], {"ROWS": str(n)}) for n in sizes for m in MODELS}


def main() -> None:
    """Measure, and print a table of stages or the fitted rates."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roofline", description="Check or fit the CPU rates.")
    parser.add_argument("--fit", action="store_true", help="print the rates that fit generated customers best")
    parser.add_argument("--records", type=Path, help="JSON lines of measurements, kept and continued")
    parser.add_argument("--rows", type=int, default=500_000, help="rows of the Parquet file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not given.fit:
            from gpupipe.datasets.churn import write

            write(folder / "churn.parquet", rows=given.rows)
        records = Records(given.records or folder / "records.jsonl")
        found = [
            (label, *stage)
            for label, run in (fitted() if given.fit else checked(folder)).items()
            for stage in stages_of(run, records.measure(label, run))
        ]
    if given.fit:
        print_rates(found, records.core)
    else:
        print_table(found, records.core)


class Records:
    """Measurements in a file of JSON lines: the rates of one core, then a line for each run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            path.write_text(json.dumps({"core": asdict(measure_core())}) + "\n")
        first, *lines = map(json.loads, path.read_text().splitlines())
        self.core = Peaks(**first["core"])
        self._known: dict[str, dict[str, float]] = {line["run"]: line["stages"] for line in lines}

    def measure(self, label: str, run: Run) -> dict[str, float]:
        """Return the CPU seconds of each stage, from the file or from a run."""
        if label not in self._known:
            self._known[label] = measure(run)
            with self._path.open("a") as file:
                file.write(json.dumps({"run": label, "stages": self._known[label]}) + "\n")
        return self._known[label]


def measure(run: Run) -> dict[str, float]:
    """Return the CPU seconds of each stage of a run in a fresh process."""
    config, overrides, environment = run
    with tempfile.TemporaryDirectory() as folder:
        settings = [word for each in (*overrides, *QUIET, f"output={folder}") for word in ("--set", each)]
        command = [sys.executable, "-m", "gpupipe", "run", config, "--device", "cpu", *settings]
        subprocess.run(command, check=True, cwd=ROOT, env=os.environ | environment, capture_output=True)
        (timeline,) = Path(folder).glob("*/timeline.json")
        stages = json.loads(timeline.read_text())["stages"]
    return {stage["name"]: stage["cpu_seconds"] for stage in stages}


def stages_of(run: Run, measured: dict[str, float]) -> Iterator[tuple[str, str, Work, float]]:
    """Yield name, kind, work and measured seconds of each stage with a known kind; folds are added up."""
    config, overrides, environment = run
    os.environ.update(environment)
    settings = load_config(ROOT / config, overrides)
    steps = WorkSteps(settings, preview(settings, "cpu"))
    steps.walk()
    total: dict[str, tuple[str, Work, float]] = {}
    for stage in steps.stages:
        if stage.kind and stage.name in measured:
            name = FOLD.sub("", stage.name)
            _, work, seconds = total.get(name, ("", Work(), 0.0))
            total[name] = stage.kind, work + stage.work, seconds + measured[stage.name]
    for name, (kind, work, seconds) in total.items():
        yield name, kind, work, seconds


def predicted(name: str, kind: str, work: Work, core: Peaks, n_folds: int = 1) -> float | None:
    """Return the predicted CPU seconds of a stage."""
    from gpupipe.plan.gpu_choice.work_steps import StageWork

    one = on_cpu(StageWork(name, kind, work.times(1 / n_folds), False), core, 1)
    return None if one is None else n_folds * one.seconds.high


def print_table(found: list[tuple[Any, ...]], core: Peaks) -> None:
    """Print measured and predicted seconds, and the part of the time that is within 30%."""
    print("| run | stage | measured s | predicted s | ratio |\n|---|---|---:|---:|---:|")
    within, total = 0.0, 0.0
    for label, name, kind, work, seconds in found:
        n_folds = 5 if label in TABLES and "refit" not in name and name not in ("read", "evaluate") else 1
        guess = predicted(name, kind, work, core, n_folds)
        if guess is None or seconds < SHORTEST:
            continue
        ratio = guess / seconds
        within, total = within + seconds * (0.7 <= ratio <= 1.3), total + seconds
        print(f"| {label} | {name} | {seconds:.3f} | {guess:.3f} | {ratio:.2f} |")
    print(f"\n{within / total:.0%} of the time is in stages within 30%.")


def print_rates(found: list[tuple[Any, ...]], core: Peaks) -> None:
    """Print for each kind the start, the seconds per step and the share of a peak with the least relative error."""
    import numpy as np
    from scipy.optimize import nnls

    print("| kind | runs | start s | s per step | share | of | median error |\n|---|---:|---:|---:|---:|---|---:|")
    for kind in sorted({kind for _, _, kind, _, _ in found}):
        rows = [(work, max(seconds, 1e-3)) for _, _, each, work, seconds in found if each == kind]
        seconds = np.array([each for _, each in rows])
        fits: list[tuple[float, list[float], str]] = []
        for peak in ("bandwidth", "operations"):
            terms = np.array([[1.0, work.n_steps, _at_peak(work, core, peak)] for work, _ in rows])
            if terms[:, 2].any():
                factors, _ = nnls(terms / seconds[:, None], np.ones(len(rows)))
                error = float(np.median(np.abs(terms @ factors / seconds - 1)))
                fits.append((error, factors.tolist(), peak))
        error, (start, step, slowness), peak = min(fits)
        share = 1 / slowness if slowness else np.inf
        print(f"| {kind} | {len(rows)} | {start:.3f} | {step:.2g} | {share:.3g} | {peak} | {error:.0%} |")


def _at_peak(work: Work, core: Peaks, peak: str) -> float:
    """Return the seconds of `work` at a peak of one core."""
    if peak == "bandwidth":
        return work.n_bytes / core.bandwidth
    return work.flops / core.flops + work.double_flops / core.double_flops + work.tensor_flops / core.tensor_flops


if __name__ == "__main__":
    main()

"""Table of the results of all visits: ``python -m tools.gpu_day.table VISIT ... --out DIR``.

Merges the results in the folders VISIT, in the order in which they were measured, into DIR/results.json and results.md,
and writes DIR/table.md: the figures as a table for docs/benchmarks.md, and a line for the README. A step that was cut
off counts with what it had measured.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.device.end_to_end import BY_HAND, GPUPIPE, seconds
from benchmarks.device.results import MARKS, StepResult, StepResults, load, partial_path, result_of
from benchmarks.device.steps import STEPS

Figures = Mapping[str, Any]
Rows = list[tuple[str, str]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the merged results and the table; return 1 if there are no results."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu_day.table", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("visits", nargs="+", type=Path, metavar="VISIT", help="folder of the results of a visit")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    results = merge(options.visits, options.out)
    if not results:
        print(f"no results in {', '.join(map(str, options.visits))}", file=sys.stderr)
        return 1
    text = table(results)
    (options.out / "table.md").write_text(text, encoding="utf8")
    print(text)
    return 0


def merge(visits: Sequence[Path], out: Path) -> dict[str, StepResult]:
    """Write results.json and results.md with the results of all visits; return them by step.

    A later result of a step replaces an earlier one, unless only the earlier one ended.

    Raises
    ------
    DataError
        If a results.json is unreadable.
    """
    merged = StepResults(out, list(STEPS))
    merged.results.clear()
    for folder in visits:
        found = load(folder / "results.json")
        for name in STEPS.keys() - found.keys():
            if (partial := partial_path(folder, name)).exists():
                cut_off = result_of(name, STEPS[name].title, partial, None, "", 0.0)
                found[name] = replace(cut_off, status="broken", reason="the visit ended during it", ended="")
        for name, result in found.items():
            before = merged.results.get(name)
            if before is None or result.status in ("done", "failed") or before.status not in ("done", "failed"):
                merged.add(result)
    return merged.results


def table(results: Mapping[str, StepResult]) -> str:
    """Return the figures as Markdown: a table, and a line that names the device and the headline."""
    rows = [row for name, result in results.items() for row in _rows(name, result)]
    lines = [
        _measured_on(results), "", "| measurement | result |", "| --- | --- |",
        *(f"| {what} | {value.replace('|', '/')} |" for what, value in rows),
    ]  # fmt: skip
    return "\n".join([*lines, "", _headline(results), ""])


def _rows(name: str, result: StepResult) -> Rows:
    """Return the figures of a step; its status with the reason if it is not done."""
    rows: Rows = []
    if name in FIGURES:
        with suppress(KeyError, TypeError, ValueError):  # of a step that was cut off
            rows = FIGURES[name](result.figures)
    elif name not in DESCRIBED:
        rows = [(result.title, "; ".join(result.lines))] if result.lines else []
    if result.status != "done":
        said = " ".join((result.reason.splitlines() or [""])[-1].split())
        rows = [*rows, (result.title, f"{MARKS[result.status]}: {said}")]
    return rows


def _measured_on(results: Mapping[str, StepResult]) -> str:
    """Return the sentence that names device, driver, versions and date."""
    days = sorted(result.ended[:10] for result in results.values() if result.ended)
    environment = results["environment"].figures if "environment" in results else {}
    versions = results["probes"].figures.get("probes", {}).get("versions", {}) if "probes" in results else {}
    named = [f"{name} {version}" for name, version in versions.items() if name.startswith(SHOWN_VERSIONS)]
    device = ", driver ".join(filter(None, (environment.get("gpu", ""), environment.get("driver", ""))))
    return f"Measured on {(days or ['an unknown day'])[0]} with {', '.join([device or 'an unknown device', *named])}."


DESCRIBED = ("environment", "probes")  # in the first sentence
SHOWN_VERSIONS = ("cupy", "numba-cuda", "numpy", "torch", "xgboost", "cudf")


def _headline(results: Mapping[str, StepResult]) -> str:
    found = []
    if "program" in results and (rows := results["program"].figures.get("program")):
        best = max(rows, key=lambda row: row["share_of_copy"])
        found.append(f"20 columns in one launch at {best['share_of_copy']:.0%} of a copy's bandwidth")
    if "churn" in results and (ours := seconds(results["churn"].figures, GPUPIPE)) is not None:
        found.append(f"{results['churn'].figures['rows']:,} customers from end to end in {ours:.1f} s")
    return f"README: {'; '.join(found)}." if found else "README: no headline figure."


def _program(figures: Figures) -> Rows:
    rows = [("copy on the device", f"{figures['copy_bytes_per_second'] / 1e9:,.0f} GB/s, read and written")]
    for row in figures["program"]:
        speed = f"{row['seconds'] * 1e3:.2f} ms, {row['bytes_per_second'] / 1e9:,.0f} GB/s"
        what = f"{row['columns']} columns of {row['rows']:,} rows, {row['order']}"
        rows.append((what, f"{speed}, {row['share_of_copy']:.0%} of the copy; first call {row['first_seconds']:.1f} s"))
    return rows


def _tests(title: str) -> Callable[[Figures], Rows]:
    return lambda figures: [(title, ", ".join(f"{n} {outcome.lower()}" for outcome, n in figures["counts"].items()))]


def _counters(figures: Figures) -> Rows:
    from benchmarks.device.profilers import DRAM, DURATION, IPC

    return [
        (
            f"`{name}`, {figures['rows']:,} rows",
            f"{one[DURATION] / 1e6:.2f} ms, DRAM at {one[DRAM]:.0f}% of its peak, "
            f"{one[IPC]:.2f} instructions per cycle",
        )
        for name, one in figures["counters"].items()
    ]


def _batches(figures: Figures) -> Rows:
    rates = figures["rows_per_second"]
    return [(f"mini-batches, {name}", f"{rate / 1e6:,.2f} million rows/s") for name, rate in rates.items()]


def _end_to_end(figures: Figures) -> Rows:
    rows = []
    for name, found in figures["implementations"].items():
        samples = found.get("samples", [])
        if samples:
            score = samples[-1].get("auc", samples[-1].get("roc_auc"))
            times = ", then ".join(f"{sample['total_s']:.2f} s" for sample in samples)
            rows.append((f"{figures['rows']:,} customers, {name}", f"{times}; ROC-AUC {score:.4f}"))
    ours, by_hand = seconds(figures, GPUPIPE), seconds(figures, BY_HAND)
    if ours and by_hand:
        rows.append(("gpupipe relative to the hand-written script", f"{by_hand / ours:.2f} times as fast"))
    if "metrics" in figures:
        scores = ", ".join(
            f"{metrics['roc_auc']:.5f} on the {device.upper()}" for device, metrics in figures["metrics"].items()
        )
        rows.append(("ROC-AUC of XGBoost on the same rows", scores))
    return rows


def _features(figures: Figures) -> Rows:
    worst: dict[str, float] = {}
    for errors in figures["ops"].values():
        for op, error in errors.items():
            worst[op] = max(worst.get(op, 0.0), error)
    op = max(worst, key=lambda name: worst[name])
    return [(f"features of {len(worst)} ops, GPU and CPU", f"largest error {worst[op]:.1e} ({op})")]


def _networks(figures: Figures) -> Rows:
    rows = [
        (f"{name}, ROC-AUC", f"{found['gpu']['roc_auc']:.4f}, {found['cpu']['roc_auc']:.4f} on the CPU in float32")
        for name, found in figures["metrics"].items()
    ]
    return rows + [(f"{name}, training", f"{value:.1f} s") for name, value in figures["train_seconds"].items()]


def _keyed(figures: Figures) -> Rows:
    return [
        (row["feature"], f"{row['gpupipe_seconds'] * 1e3:.2f} ms, {row['ratio']:.1f} times as fast as cuDF")
        for row in figures["keyed"]
        if "ratio" in row
    ]


FIGURES: dict[str, Callable[[Figures], Rows]] = {
    "program": _program,
    "kernels": _tests("tests of kernels and mini-batches"),
    "counters": _counters,
    "batches": _batches,
    "churn": _end_to_end,
    "tests": _tests("tests on the GPU"),
    "networks": _networks,
    "features": _features,
    "end_to_end": _end_to_end,
    "keyed": _keyed,
    "reading": _tests("tests with cuDF"),
}

if __name__ == "__main__":
    sys.exit(main())

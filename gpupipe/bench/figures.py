"""Rows of the result tables: medians over the runs, and ratios to a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from gpupipe.bench.sample import BenchSample, stage_document

Seconds = Mapping[str, float]
Totals = tuple[float, float]  # seconds of the features, of all stages


def _stage(name: str) -> Callable[[Seconds, Totals], float | None]:
    return lambda stages, totals: stages.get(name)


def _transform(stages: Seconds, totals: Totals) -> float | None:
    """Return the seconds of the transforms; None for a peer that fits and transforms in one call."""
    parts = [seconds for name, seconds in stages.items() if name.startswith("features_transform")]
    return sum(parts) if parts and "features_fit" in stages else None


def _without_train(stages: Seconds, totals: Totals) -> float | None:
    return totals[1] - stages.get("train", 0.0)


# label of a row → function that returns its seconds, from the stages of a run and their totals
STAGES: dict[str, Callable[[Seconds, Totals], float | None]] = {
    "imports": _stage("imports"),
    "read": _stage("read"),
    "split": _stage("split"),
    "features fit": _stage("features_fit"),
    "features transform": _transform,
    "features total": lambda stages, totals: totals[0],
    "train": _stage("train"),
    "evaluate": _stage("evaluate"),
    "save": _stage("save"),
    "total": lambda stages, totals: totals[1],
    "total without train": _without_train,
}
PROCESS = "whole process"
SERVE = "serve: transform of all rows"

# label of a row → the stages of `gpupipe.bench.stages` that it sums
EXTRAS: dict[str, tuple[str, ...]] = {
    "read": ("read",),
    "read, and one pass over the blocks": ("read", "read_pass"),
    "read (encoded cache): first run, reads and stores": ("cache_store",),
    "read (encoded cache): later runs, map only": ("cache_load",),
    "read (encoded cache): later runs, map and one pass": ("cache_load", "cache_pass"),
    SERVE: ("serve_transform_all",),
}


def summary(samples: Mapping[str, Sequence[BenchSample]], baselines: Sequence[str], metric: str) -> dict[str, Any]:
    """Return the medians, the ratios to a baseline, and all runs of each runner.

    The result is runner → ``seconds`` and ``cpu_seconds`` (label → median), ``peak_rss_mib``, ``quality`` (the value of
    `metric`), ``ratio`` (label → median seconds divided by those of the baseline), ``runs``. For each row, the first of
    the `baselines` that has a value counts.
    """
    medians = {name: _medians(runs, metric) for name, runs in samples.items()}
    ours = [medians[name] for name in baselines]
    base = {label: _first([each["seconds"][label] for each in ours]) for label in (*STAGES, PROCESS)}
    for name, runs in samples.items():
        mine = medians[name]
        mine["ratio"] = {label: ratio(seconds, base[label]) for label, seconds in mine["seconds"].items()}
        mine["ratio"]["peak_rss_mib"] = ratio(mine["peak_rss_mib"], ours[0]["peak_rss_mib"])
        mine["runs"] = [run.to_json() for run in runs]
    return medians


def _first(values: Sequence[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def _medians(runs: Sequence[BenchSample], metric: str) -> dict[str, Any]:
    wall = [wall_seconds(run) for run in runs]
    cpu = [cpu_seconds(run) for run in runs]
    return {
        "seconds": {label: known_median([seconds[label] for seconds in wall]) for label in (*STAGES, PROCESS)},
        "cpu_seconds": {label: known_median([seconds[label] for seconds in cpu]) for label in (*STAGES, PROCESS)},
        "peak_rss_mib": known_median([run.document["peak_rss_mib"] for run in runs]),
        "quality": known_median([run.metric(metric) for run in runs]),
    }


def wall_seconds(run: BenchSample) -> dict[str, float | None]:
    """Return the wall seconds of each row of the table, with the totals that the run reports."""
    stages = run.document["stages_s"]
    totals = run.document["features_total_s"], run.document["total_s"]
    return {label: figure(stages, totals) for label, figure in STAGES.items()} | {PROCESS: run.process_s}


def cpu_seconds(run: BenchSample) -> dict[str, float | None]:
    """Return the CPU seconds of each row of the table."""
    stages = run.document["stages_cpu_s"]
    document = stage_document(stages, stages)
    totals = document["features_total_s"], document["total_s"]
    return {label: figure(stages, totals) for label, figure in STAGES.items()} | {PROCESS: run.process_cpu_s}


def extras_summary(documents: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Return the medians of the extra stages: ``seconds`` (wall) and ``cpu_seconds``, by label."""
    return {
        to: {label: known_median([_sum(d[of], stages) for d in documents]) for label, stages in EXTRAS.items()}
        for to, of in (("seconds", "stages_s"), ("cpu_seconds", "stages_cpu_s"))
    }


def _sum(seconds: Seconds, stages: Sequence[str]) -> float | None:
    return sum(seconds[name] for name in stages) if all(name in seconds for name in stages) else None


def known_median(values: Sequence[float | None]) -> float | None:
    """Return the median of the values that are not None, or None without any."""
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None


def ratio(value: float | None, ours: float | None) -> float | None:
    """Return ``value / ours``; None if either is missing or `ours` is 0."""
    return value / ours if value is not None and ours else None


def break_even(rows: Sequence[int], ours: Sequence[float | None], theirs: Sequence[float | None]) -> int | None:
    """Return the smallest number of rows from which `ours` is faster at every measured size; None if there is none.

    `rows` are the measured sizes, `ours` and `theirs` the seconds at each size.
    """
    found = None
    for n_rows, mine, other in sorted(zip(rows, ours, theirs, strict=True), reverse=True):
        if mine is None or other is None or mine >= other:
            break
        found = n_rows
    return found

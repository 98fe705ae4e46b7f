"""Keyed features compared with the best pandas and polars code for the same columns: ``python -m benchmarks.keyed``.

The log is online-retail (``GPUPIPE_DATA``), repeated up to ``--events`` events with distinct customers in each copy.
The features are ten running columns, with a value for each event over its customer's events up to and including it; two
windows of 30 days; and seven aggregates of each customer before a cut-off. The implementations:

``gpupipe``                on arrays; sorts by customer once for all groups
``pandas``                 on a frame, with any vectorized pandas and NumPy code; sorts for the windows only, and marks
                           the first event of each customer and article once for two groups
``pandas, as documented``  ``groupby().rolling("30D")`` for the windows, ``groupby().agg()`` with "nunique"
``polars``                 on a frame, with lazy queries on all threads; sorts once for events, and not for customers

All start from the same columns in memory and may rely on events being sorted by time. All return a value for each event
in that order; the peers skip events without a customer. The times include sorting and restoring the order of the
events, but not creating the frames. Each runs in its own processes, in turn, after a warm-up. Results are medians.

The exit code is 1 if a column of a peer differs from gpupipe's by more than 1e-5 of max(1, |value|).
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

from benchmarks.keyed.child import GPUPIPE, IMPLEMENTATIONS
from benchmarks.keyed.event_log import write
from gpupipe.bench.process import run_child
from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.files.jsonfile import write_json

EVENTS = 10_000_000
TURNS = 3
REPEAT = 3
TOLERANCE = 1e-5
TOTAL = "total"

Samples = dict[str, list[dict[str, float]]]


def compare(n_events: int, turns: int, repeat: int) -> dict[str, Any]:
    """Return the seconds of all implementations, their ratios to gpupipe, and the columns that differ."""
    data = os.environ.get("GPUPIPE_DATA")
    if not data:
        raise ConfigError("GPUPIPE_DATA is not set", where="environment", fix="see configs/README.md")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(Path(data), n_events, folder)
        samples = _samples(folder, turns, repeat)
        errors = {name: _errors(folder, name) for name in IMPLEMENTATIONS if name != GPUPIPE}
    seconds = {name: _medians(found) for name, found in samples.items()}
    ratios = {
        name: {stage: took / seconds[GPUPIPE][stage] for stage, took in stages.items()}
        for name, stages in seconds.items()
    }
    unequal = [
        f"{name}: {column} ({error:.1e})"
        for name, columns in errors.items()
        for column, error in columns.items()
        if not error <= TOLERANCE
    ]
    return {
        "events": n_events, "turns": turns, "repeat": repeat, "load": os.getloadavg()[0],
        "seconds": seconds, "ratios": ratios, "largest_errors": errors, "unequal": unequal,
    }  # fmt: skip


def _samples(folder: Path, turns: int, repeat: int) -> Samples:
    samples: Samples = {name: [] for name in IMPLEMENTATIONS}
    for turn in range(turns):
        for name in IMPLEMENTATIONS:
            print(f"turn {turn + 1} of {turns}: {name}", file=sys.stderr, flush=True)
            arguments = [str(folder), name, "--repeat", str(repeat)]
            done = run_child(arguments, folder / f"{name} {turn}.json", "benchmarks.keyed.child")
            samples[name] += done.document["samples"]
    return samples


def _medians(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each stage, and of the sum for implementations with all stages."""
    stages = {stage: statistics.median(sample[stage] for sample in samples) for stage in samples[0]}
    if "running" not in stages:
        return stages
    return {**stages, TOTAL: statistics.median(sum(sample.values()) for sample in samples)}


def _errors(folder: Path, name: str) -> dict[str, float]:
    """Return the largest difference of each column from gpupipe's; infinite if only one of the two is null."""
    import numpy as np

    errors = {}
    for file in sorted((folder / name).glob("*/*.npy")):
        theirs = np.load(file).astype("float64")
        mine = np.load(folder / GPUPIPE / file.relative_to(folder / name)).astype("float64")
        if len(mine) != len(theirs) or (np.isnan(mine) != np.isnan(theirs)).any():
            error = np.inf
        else:
            error = np.nanmax(np.abs(mine - theirs) / np.maximum(1, np.abs(theirs)), initial=0.0)
        errors[f"{file.parent.name}, {file.stem}"] = float(error)
    return errors


def text_of(figures: Mapping[str, Any]) -> str:
    """Return the results as a table: the seconds of each group, and their ratios to gpupipe's."""
    seconds, ratios = figures["seconds"], figures["ratios"]
    stages = list(seconds[GPUPIPE])
    head = f"{figures['events']:,} events, load {figures['load']:.1f}; seconds, and ratios to {GPUPIPE}"
    lines = [f"{'':<24}" + "".join(f"{stage:>16}" for stage in stages)]
    for name, took in seconds.items():
        cells = [f"{took[s]:.3f} {ratios[name][s]:6.1f} x" if s in took else "" for s in stages]
        lines.append(f"{name:<24}" + "".join(f"{cell:>16}" for cell in cells))
    unequal = figures["unequal"]
    verdict = [f"not equal: {column}" for column in unequal] or [f"all columns equal to {TOLERANCE:.0e}"]
    return "\n".join([head, *lines, *verdict])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a column differs."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.keyed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=EVENTS, help=f"number of events (default: {EVENTS})")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"processes per implementation (default: {TURNS})")
    parser.add_argument("--repeat", type=int, default=REPEAT, help=f"measured runs per process (default: {REPEAT})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this JSON file")
    options = parser.parse_args(arguments)
    try:
        figures = compare(options.events, options.turns, options.repeat)
    except GpupipeError as error:
        print(f"{error.title}: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        write_json(options.json, figures)
    print(text_of(figures))
    return 1 if figures["unequal"] else 0


if __name__ == "__main__":
    sys.exit(main())

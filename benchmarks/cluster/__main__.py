"""Several processes on one machine: ``python -m benchmarks.cluster [--rows N | --memory SIZE | --kills N]``.

By default, compute features of the generated customers, from a CSV file to matrices. The implementations:

``gpupipe, workers``      workers with one thread each, as with ``--cluster local``
``gpupipe, one process``  the same in one process, on all threads
``dask.dataframe``        the same features written by hand, on the same number of workers

Each runs in its own process, in turn. The times include the workers' imports, but not their start. Results are medians.
The exit code is 1 if the two matrices of gpupipe differ in a bit, or if the mean of a column of the peer differs by
more than its different split and hashes explain.

``--memory 2GiB``  only the workers, with a limit for each: the peak memory of each process (VmHWM), and the bytes
spilled
                   to disk
``--kills 20``     runs with a worker killed at a random moment: how many end with the right result, with a clear error,
                   with a wrong result, or hang; exit code 1 unless all end in one of the first two ways
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cluster.child import ALONE, DASK, IMPLEMENTATIONS, SHARED
from benchmarks.cluster.kills import HUNG, WRONG, run_with_kills
from benchmarks.cluster.workload import N_FEATURES, OF_BUCKETS
from gpupipe.bench.measurement import describe_machine
from gpupipe.bench.process import run_child
from gpupipe.errors import GpupipeError
from gpupipe.files.jsonfile import write_json
from gpupipe.units import MIB

ROWS = 1_000_000
KILL_ROWS = 600_000
TURNS = 3
WORKERS = 2
LEAST_TOLERANCE, DEVIATIONS = 0.005, 3.0  # tolerance of a column's mean over the rows of another split


def compare(file: Path, turns: int, n_workers: int) -> dict[str, Any]:
    """Return the seconds of all implementations, their ratios to gpupipe, and the columns that differ."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in IMPLEMENTATIONS}
    for turn in range(turns):
        for name in IMPLEMENTATIONS:
            _tell(f"turn {turn + 1} of {turns}: {name}")
            found[name].append(_run_child(file, name, n_workers))
    seconds = {
        name: {stage: statistics.median(run["seconds"][stage] for run in runs) for stage in runs[0]["seconds"]}
        for name, runs in found.items()
    }
    total = {name: stages["total"] for name, stages in seconds.items()}
    return {
        "implementations": seconds,
        "samples": found,
        "ours_of": {name: total[SHARED] / total[name] for name in (ALONE, DASK)},
        "unequal": unequal(*(runs[0] for runs in found.values())),
    }


def _run_child(file: Path, name: str, n_workers: int, memory: str | None = None) -> dict[str, Any]:
    arguments = [str(file), name, "--workers", str(n_workers), *(["--memory", memory] if memory else [])]
    found: dict[str, Any] = run_child(arguments, file.with_name(f"{name}.json"), "benchmarks.cluster.child").document
    return found


def unequal(shared: Mapping[str, Any], alone: Mapping[str, Any], peer: Mapping[str, Any]) -> list[str]:
    """Return the differences between gpupipe's two matrices, bit by bit, and to the peer's column means."""
    names = alone["names"]
    differ = [name for name, a, b in zip(names, shared["marks"], alone["marks"], strict=True) if a != b]
    if shared["rows"] != alone["rows"] or len(names) != N_FEATURES or len(peer["means"]) != N_FEATURES:
        return ["the shapes of the matrices differ"]
    tolerance = max(LEAST_TOLERANCE, DEVIATIONS / alone["rows"] ** 0.5)
    far = [
        f"{names[j]}: mean {peer['means'][j]:.4f} in {DASK}, {alone['means'][j]:.4f} in gpupipe"
        for j in range(N_FEATURES)
        if j not in OF_BUCKETS and not abs(peer["means"][j] - alone["means"][j]) <= tolerance
    ]
    return [f"{name}: bits differ on workers" for name in differ] + far


def text_of(figures: Mapping[str, Any]) -> str:
    """Return the results of any of the three measurements as a table."""
    head = f"{figures['rows']:,} rows, {figures['workers']} workers, load {figures['machine']['load_average'][0]:.1f}"
    if "kills" in figures:
        return "\n".join([head, *_kills(figures["kills"])])
    if "limited" in figures:
        return "\n".join([f"{head}, {figures['memory']} for each", *_memory(figures["limited"])])
    stages = list(figures["implementations"][ALONE])
    lines = [f"{'seconds':<24}" + "".join(f"{stage:>12}" for stage in stages) + f"{'workers take':>16}"]
    for name, took in figures["implementations"].items():
        ratio = figures["ours_of"].get(name)
        cells = "".join(f"{took[stage]:12.2f}" for stage in stages)
        lines.append(f"{name:<24}{cells}" + (f"{ratio:14.2f} x" if ratio is not None else ""))
    verdict = [f"not equal: {what}" for what in figures["unequal"]]
    return "\n".join([head, *lines, *(verdict or ["equal: gpupipe bit for bit, the peer by its means"])])


def _memory(found: Mapping[str, Any]) -> list[str]:
    stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in found["seconds"].items())
    lines = [f"{'':<28}{'peak':>12}{'spilled':>14}{'tasks':>8}"]
    for use in found["workers"]:
        held, spilled = use["peak_bytes"] / MIB, use["bytes_spilled"] / MIB
        lines.append(f"{use['address']:<28}{held:8,.0f} MiB{spilled:10,.0f} MiB{use['tasks']:8}")
    return [stages, *lines, f"{found['rows']:,} training rows, {found['lost']} workers lost"]


def _kills(found: Mapping[str, Any]) -> list[str]:
    lines = [f"undisturbed: {found['undisturbed_seconds']:.1f} s; seed {found['seed']}"]
    lines.append(f"{'':<6}{'killed at':>10}  {'after stage':<34}{'outcome':<10}{'seconds':>9}")
    for i, run in enumerate(found["ended"], start=1):
        moment = f"{run['moment']:8.1f} s" if run["killed"] else "not"
        lines.append(f"{i:<6}{moment:>10}  {run['stage']:<34}{run['outcome']:<10}{run['seconds']:9.1f}")
        lines += [f"        {line}" for line in run["said"].splitlines()]
    counts = ", ".join(f"{n} {outcome}" for outcome, n in found["counts"].items())
    return [*lines, f"{found['runs']} runs: {counts}; {found['left_behind']} leftover processes"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if results differ or a run failed."""
    options = _parse(arguments)
    rows = options.rows or (KILL_ROWS if options.kills else ROWS)
    figures: dict[str, Any] = {"rows": rows, "workers": options.workers, "machine": describe_machine()}
    try:
        with tempfile.TemporaryDirectory() as name:
            folder, file = Path(name), Path(name) / f"churn.{options.format}"
            _tell(f"writing {rows:,} rows")
            run_child(["table", str(file), "--rows", str(rows), "--seed", "7"], folder / "written.json")
            figures |= _measured(options, file, folder)
    except GpupipeError as error:
        print(f"{error.title}: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        write_json(options.json, figures)
    print(text_of(figures))
    return 1 if _wrong(figures) else 0


def _measured(options: argparse.Namespace, file: Path, folder: Path) -> dict[str, Any]:
    if options.kills:
        return {"kills": run_with_kills(file, options.kills, options.seed, folder, _tell)}
    if options.memory:
        return {"memory": options.memory, "limited": _run_child(file, SHARED, options.workers, options.memory)}
    return compare(file, options.turns, options.workers)


def _wrong(figures: Mapping[str, Any]) -> bool:
    if "kills" in figures:
        counts = figures["kills"]["counts"]
        return bool(counts[WRONG] + counts[HUNG] + figures["kills"]["left_behind"])
    return bool(figures.get("unequal"))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, help=f"(default: {ROWS}; with --kills {KILL_ROWS})")
    parser.add_argument("--format", choices=["csv", "parquet"], default="csv", help="format of the file (default: csv)")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"(default: {WORKERS})")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"processes per implementation (default: {TURNS})")
    one = parser.add_mutually_exclusive_group()
    one.add_argument(
        "--memory", metavar="SIZE", help="memory limit of each worker, such as 2GiB; measures only the workers"
    )
    one.add_argument("--kills", type=int, metavar="N", help="number of runs with two workers, one of which is killed")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random moments of --kills (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this JSON file")
    return parser.parse_args(arguments)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

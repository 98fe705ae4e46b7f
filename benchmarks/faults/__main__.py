"""Checks of runs that are killed, run out of disk space or run concurrently.

    python -m benchmarks.faults --kills 50 --full 20 --concurrent 4

``--kills N``       runs killed (SIGKILL) at random moments
``--full N``        runs whose disk fills up: a small tmpfs, or a limit of file sizes if mounting is not permitted
``--concurrent N``  concurrent runs in one folder, half of them under the same name
``--read-only``     a run into a folder that cannot be written to

After each run, the final name must contain the complete old result or the complete new one; the same command with
``--resume`` must end with the metrics of an undisturbed run, to the last digit, and leave no other files. Otherwise the
exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.faults.injection import concurrent, full_disks, kills, read_only
from benchmarks.faults.runs import RIGHT, FaultOutcome, ReferenceRun
from gpupipe.bench.measurement import describe_machine
from gpupipe.errors import GpupipeError
from gpupipe.files.jsonfile import write_json

ROWS = 1500


def measure(options: argparse.Namespace, folder: Path) -> dict[str, list[FaultOutcome]]:
    """Return the outcomes of all runs, by kind of fault."""
    reference = ReferenceRun.of(folder, options.rows)
    _tell(f"undisturbed: {reference.seconds:.1f} s")
    found = {}
    if options.kills:
        found["kills"] = kills(reference, options.kills, options.seed, folder, _tell)
    if options.full:
        found["full"] = full_disks(reference, options.full, options.seed, folder, _tell)
    if options.read_only:
        found["read-only"] = read_only(reference, folder, _tell)
    if options.concurrent:
        found["concurrent"] = concurrent(reference, options.concurrent, folder, _tell)
    return found


def text_of(found: Mapping[str, Sequence[FaultOutcome]]) -> str:
    """Return the outcomes as lines of text, followed by the problems."""
    lines = []
    for name, runs in found.items():
        right = sum(run.outcome == RIGHT for run in runs)
        left = ", ".join(f"{n} {what}" for what, n in Counter(run.left for run in runs).items())
        codes = ", ".join(f"{n} × {code}" for code, n in sorted(Counter(run.code for run in runs).items()))
        taken = sum(run.taken_up for run in runs)
        lines.append(f"{name}: {right} of {len(runs)} right; left {left}; exit codes {codes}; {taken} stages resumed")
        lines += [f"  {run.what}: {problem}" for run in runs for problem in run.problems]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the outcomes; return 1 if a run failed a check."""
    options = _parse(arguments)
    try:
        with tempfile.TemporaryDirectory() as name:
            found = measure(options, Path(name))
    except GpupipeError as error:
        print(f"{error.title}: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        runs: dict[str, Any] = {name: [asdict(run) for run in each] for name, each in found.items()}
        write_json(options.json, {"rows": options.rows, "seed": options.seed, "machine": describe_machine(), **runs})
    print(text_of(found))
    return int(any(run.outcome != RIGHT for runs in found.values() for run in runs))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in ("kills", "full", "concurrent"):
        parser.add_argument(f"--{name}", type=int, default=0, metavar="N", help="see above")
    parser.add_argument("--read-only", action="store_true", help="see above")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"(default: {ROWS})")
    parser.add_argument("--seed", type=int, default=0, help="seed of random moments and sizes (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to this JSON file")
    return parser.parse_args(arguments)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

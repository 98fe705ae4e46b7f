"""Ratios of CPU seconds, gpupipe divided by a peer, compared with recorded ones: ``python -m benchmarks.ratios``.

``import``         ``import gpupipe``, compared with ``import pandas``
``read``           Parquet to an encoded table, compared with `pandas.read_parquet`
``features``       the features of a linear model, compared with hand-written pandas
``run``            the whole process from Parquet to an exported logistic regression, compared with scikit-learn
``row``            `Scorer.predict_proba` of a dict, compared with scikit-learn on a frame of one row
``row of pandas``  the same for ``frame.to_dict("records")``
``frame``          `Model.predict_proba` of a frame of one row, compared with scikit-learn

Each turn runs both sides of each comparison one after the other, one process at a time with one thread, so that other
work on the machine slows both. CPU seconds are compared, not wall time. The exit code is 1 if a ratio is more than 1.25
times its reference in two of three turns; the third turn runs only if it can decide. After a change that is meant to
change a ratio, on a quiet machine:

    python -m benchmarks.ratios --renew

It writes ``benchmarks/ratios/reference.json``. ``--renew-from ratios.json`` takes the record of a run of CI instead.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.device.workload import read_source, write_config, write_data
from benchmarks.ratios.child import least
from benchmarks.ratios.verdict import is_decided, lost, medians
from gpupipe.bench.measurement import describe_machine
from gpupipe.bench.process import run_child
from gpupipe.files.jsonfile import write_json

ROOT = Path(__file__).parents[2]
REFERENCE = Path(__file__).with_name("reference.json")
CHILD = "benchmarks.ratios.child"
TURNS = 3
STAGE_ROWS, RUN_ROWS = 200_000, 20_000
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "GPUPIPE_THREADS")
PAIRED = {"import": 5, "stages": 3, "run": 1}  # processes of each side in a turn: the least CPU time is the least noisy


def prepare(folder: Path, stage_rows: int, run_rows: int) -> None:
    """Write the tables and configurations."""
    import yaml

    from gpupipe.datasets.churn import write

    write_data(folder / "stages", stage_rows, 1)
    write_config(folder, read_source(folder / "stages"), "logistic_regression").rename(folder / "stages.yaml")
    write(folder / "churn.parquet", run_rows)
    document = yaml.safe_load((ROOT / "configs" / "churn.yaml").read_text(encoding="utf8"))
    path = str(folder / "churn.parquet")
    document["source"] = {"path": path, "target": "Churn", "positive": "Yes", "drop": ["customerID"], "cache": False}
    write_json(folder / "run.yaml", {**document, "models": ["logistic_regression"]})


def measure(folder: Path, turn: int) -> dict[str, float]:
    """Return the ratio of each measure; the order of the sides alternates from turn to turn."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    ratios: dict[str, float] = {}
    for task, n_processes in PAIRED.items():
        sides = (task, f"{task}-peer")
        ordered = sides if turn % 2 == 0 else sides[::-1]
        measured = [{side: _seconds(folder, side) for side in ordered} for _ in range(n_processes)]
        found = {side: least([each[side] for each in measured]) for side in sides}
        ratios |= {name: seconds / found[sides[1]][name] for name, seconds in found[task].items()}
    seconds = _seconds(folder, "rows")
    return ratios | {name: each / seconds["peer"] for name, each in seconds.items() if name != "peer"}


def _seconds(folder: Path, task: str) -> dict[str, float]:
    output = folder / f"{task}.json"
    output.unlink(missing_ok=True)
    found: dict[str, float] = run_child([task, str(folder)], output, CHILD).document
    return found


def record_of(turns: Sequence[Mapping[str, float]], seconds: float) -> dict[str, Any]:
    """Return the history record of a run: its ratios, and where and when they were measured."""
    ratios = {name: round(ratio, 5) for name, ratio in medians(turns).items()}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "ratios": ratios, "turns": [*turns], "seconds": round(seconds, 1), "time": when,
        "commit": os.environ.get("GITHUB_SHA", ""), "machine": describe_machine(),
    }  # fmt: skip


def read_reference(path: Path) -> dict[str, float]:
    """Return the reference ratios; empty if there is no file."""
    found: dict[str, float] = json.loads(path.read_text(encoding="utf8"))["ratios"] if path.exists() else {}
    return found


def write_reference(record: Mapping[str, Any], path: Path) -> None:
    """Write the ratios of a record as the reference."""
    kept = {name: record[name] for name in ("ratios", "time", "machine")}
    write_json(path, {**kept, "machine": record["machine"]["cpu"]})


def text_of(turns: Sequence[Mapping[str, float]], reference: Mapping[str, float]) -> str:
    """Return the table of ratios."""
    lines = ["| CPU seconds / those of the peer | median | turns | reference |", "|---|---:|---:|---:|"]
    for name, ratio in medians(turns).items():
        each = " ".join(f"{turn[name]:.4f}" for turn in turns)
        known = f"{reference[name]:.4f}" if name in reference else "none"
        lines.append(f"| {name} | {ratio:.4f} | {each} | {known} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a ratio is lost."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ratios", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the history record to this file")
    parser.add_argument("--reference", type=Path, default=REFERENCE, metavar="FILE", help="(default: in this folder)")
    parser.add_argument("--renew", action="store_true", help="measure, and write the ratios as the reference")
    parser.add_argument("--renew-from", type=Path, metavar="FILE", help="write those of a record as the reference")
    parser.add_argument("--rows", type=int, nargs=2, default=(STAGE_ROWS, RUN_ROWS), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.renew_from:
        write_reference(json.loads(options.renew_from.read_text(encoding="utf8")), options.reference)
        return 0
    reference = {} if options.renew else read_reference(options.reference)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), *options.rows)
        turns: list[dict[str, float]] = []
        while len(turns) < TURNS and not (turns and reference and is_decided(turns, reference, TURNS)):
            turns.append(measure(Path(folder), len(turns)))
    record = record_of(turns, time.monotonic() - start)
    if options.json:
        write_json(options.json, record)
    if options.renew:
        write_reference(record, options.reference)
        reference = read_reference(options.reference)
    print(text_of(turns, reference))
    failures = lost(turns, reference)
    for name, why in failures.items():
        print(f"{name}: slower than recorded: {why}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

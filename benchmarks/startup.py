"""Whole processes of commands on small tables: ``python -m benchmarks.startup [--rounds N]``.

Starts each command and the imports that it cannot avoid in turns, and prints medians of wall and processor seconds and
the peak of memory. The first round, which writes caches, is printed as well.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CHURN, BENCH = ROOT / "configs" / "churn.yaml", ROOT / "configs" / "bench_churn.yaml"
CHILD = ("-m", "gpupipe.bench.child", "stages", str(BENCH), "--json", os.devnull, "--model")
COMMANDS: dict[str, tuple[str, ...]] = {
    "import numpy, pyarrow": ("-c", "import numpy, pyarrow.parquet"),
    "import sklearn.linear_model": ("-c", "import sklearn.linear_model"),
    "gpupipe check": ("-m", "gpupipe", "check", str(CHURN)),
    "features only": (*CHILD, "none"),
    "logistic regression": (*CHILD, "logistic_regression"),
    "gpupipe run": ("-m", "gpupipe", "run", str(CHURN), "--quiet"),
}


class Usage(NamedTuple):
    """Resources of one process."""

    wall_seconds: float
    processor_seconds: float
    peak_mib: float


def main() -> None:
    """Measure and print a line for each command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description="Measure whole processes.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=50_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "churn.parquet")
        _run(("-c", f"from gpupipe.datasets.churn import write; write({str(table)!r}, rows={given.rows})"), folder)
        rounds = [{name: _run(command, folder) for name, command in COMMANDS.items()} for _ in range(given.rounds)]
    print(f"{'':<28}{'first s':>9}{'median s':>10}{'cpu s':>8}{'MiB':>7}")
    for name in COMMANDS:
        wall, processor, peak = zip(*(each[name] for each in rounds), strict=True)
        medians = statistics.median(wall), statistics.median(processor), statistics.median(peak)
        print(f"{name:<28}{wall[0]:>9.2f}{medians[0]:>10.2f}{medians[1]:>8.2f}{medians[2]:>7.0f}")


def _run(command: tuple[str, ...], folder: str) -> Usage:
    """Run Python in a folder; raise CalledProcessError if it fails."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    environment = {**os.environ, "PYTHONPATH": paths, "CHURN_FILE": "churn.parquet"}
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Usage(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


if __name__ == "__main__":
    main()

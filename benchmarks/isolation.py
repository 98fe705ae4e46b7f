"""Cost of ``isolate: true``: ``python -m benchmarks.isolation [--rows N ...] [--files N ...] [--rounds N]``.

Reads generated customers in every format with and without isolation, in turns, and prints the medians and the median
ratio. A round without isolation is one read; with isolation, it is the start of the child process, its read of every
file, and the same read.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROWS = (10_000, 300_000)
FILES = (1, 100)
ROUNDS = 5


def main() -> None:
    """Measure and print one line for each format, number of rows and number of files."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.isolation", description="Measure the cost of isolate: true."
    )
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="total rows of all files")
    parser.add_argument("--files", type=int, nargs="+", default=FILES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    print(f"{'format':<9}{'rows':>10}{'files':>7}{'plain s':>9}{'isolated s':>12}{'ratio':>7}")
    for n_rows in given.rows:
        for n_files in given.files:
            for name, write in _writers().items():
                with tempfile.TemporaryDirectory() as folder:
                    _write(Path(folder), name, write, n_rows, n_files)
                    plain, isolated = _measure(folder, given.rounds)
                ratio = statistics.median(b / a for a, b in zip(plain, isolated, strict=True))
                seconds = f"{statistics.median(plain):>9.3f}{statistics.median(isolated):>12.3f}"
                print(f"{name:<9}{n_rows:>10,}{n_files:>7}{seconds}{ratio:>7.2f}", flush=True)


def _measure(folder: str, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each round without and with isolation; the first round of each is dropped."""
    from gpupipe.io import isolation as trial
    from gpupipe.io.settings import TableSource
    from gpupipe.io.source_reader import read_arrow

    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds + 1):
        for isolate, found in seconds.items():
            start = time.perf_counter()
            read_arrow(TableSource(path=folder, isolate=isolate))
            found.append(time.perf_counter() - start)
        trial.end_trials()
        trial.forget()
    return seconds[False][1:], seconds[True][1:]


def _write(folder: Path, name: str, write: Callable[[Any, Path], None], n_rows: int, n_files: int) -> None:
    import pyarrow as pa

    from gpupipe.datasets.churn import customers

    table = customers(n_rows, 7, None)
    text = {column.name: pa.string() for column in table.schema if pa.types.is_dictionary(column.type)}
    table = table.cast(pa.schema([(column.name, text.get(column.name, column.type)) for column in table.schema]))
    height = -(-n_rows // n_files)
    for i in range(n_files):
        write(table.slice(i * height, height), folder / f"{i:04}.{name}")


def _writers() -> dict[str, Callable[[Any, Path], None]]:
    from pyarrow import csv, orc, parquet

    def jsonl(table: Any, path: Path) -> None:
        table.to_pandas().to_json(path, orient="records", lines=True, date_format="iso")

    return {"csv": csv.write_csv, "jsonl": jsonl, "orc": orc.write_table, "parquet": parquet.write_table}


if __name__ == "__main__":
    main()

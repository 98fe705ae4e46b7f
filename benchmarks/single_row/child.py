"""Child process that measures one implementation: ``python -m benchmarks.single_row.child FOLDER NAME --json OUT``.

The process is pinned to one core by its parent, and its libraries have one thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.single_row.implementations import OPENERS, Opened
from gpupipe.bench.child import write_document

WARM_UP = 200


def measure_calls(folder: Path, name: str, calls: int, seconds: float, offset: int) -> dict[str, Any]:
    """Time single calls over different rows, from the row at `offset` on.

    Returns
    -------
    dict
        ``microseconds`` of each call after the warm-up, the ``probabilities``, ``first_microseconds``: those of the
        first call after the load, and ``load_seconds``, which include imports and reading the rows.
    """
    started = time.perf_counter()
    predict, rows = OPENERS[name](folder)
    load_seconds = time.perf_counter() - started
    first = _timed(predict, rows, 1, seconds, offset)[0]
    _timed(predict, rows, WARM_UP, seconds / 10, offset)
    times, probabilities = _timed(predict, rows, calls, seconds, offset)
    return {
        "microseconds": times,
        "probabilities": probabilities,
        "first_microseconds": first[0],
        "load_seconds": load_seconds,
    }


def _timed(
    predict: Any, rows: Sequence[Any], calls: int, seconds: float, offset: int
) -> tuple[list[float], list[float]]:
    """Return the microseconds and results of `calls` calls, or of those that `seconds` suffice for."""
    clock = time.perf_counter_ns
    times = []
    found = []
    end = clock() + int(seconds * 1e9)
    for i in range(offset, offset + calls):
        row = rows[i % len(rows)]
        started = clock()
        probability = predict(row)
        stopped = clock()
        times.append((stopped - started) / 1e3)
        found.append(float(probability))
        if stopped > end:
            break
    return times, found


def measure_threads(folder: Path, name: str, calls: int, n_threads: int) -> dict[str, Any]:
    """Return the rows per second of threads that share a function, ``equal``: whether results equal those of one."""
    opened: Opened = OPENERS[name](folder)
    predict, rows = opened
    shares = [[rows[i % len(rows)] for i in range(start, calls, n_threads)] for start in range(n_threads)]
    expected = [[predict(row) for row in share[:WARM_UP]] for share in shares]
    with ThreadPoolExecutor(n_threads) as pool:
        started = time.perf_counter()
        found = list(pool.map(lambda share: [predict(row) for row in share], shares))
        seconds = time.perf_counter() - started
    is_equal = [share[:WARM_UP] for share in found] == expected
    return {"rows_per_second": calls / seconds, "equal": is_equal}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the times of one implementation, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.single_row.child", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the workload")
    parser.add_argument("name", choices=list(OPENERS))
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="measure the throughput of threads")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)

    def task() -> dict[str, Any]:
        if options.threads:
            return measure_threads(options.folder, options.name, options.calls, options.threads)
        return measure_calls(options.folder, options.name, options.calls, options.seconds, options.offset)

    return write_document(task, options.json)


if __name__ == "__main__":
    sys.exit(main())

"""Features compared with the memory bandwidth: ``python -m benchmarks.floor CONFIG [--rows N ...]``.

A transform has to read each source column once and write each cell of the matrix once; a fit has to read. The floor is
the minimal time for this traffic, at the bandwidth measured between the runs. CONFIG must read a file of generated
customers named by ``CHURN_FILE``, like ``configs/bench_churn.yaml``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.bench.stages import SplitTable
    from gpupipe.features.program.fitted import FittedFeatures
    from gpupipe.table.blocks import Table
    from gpupipe_kernels.program.program import Program

ROWS = (1_000_000, 5_000_000)
ROUNDS = 9
BLOCK_CELLS = 1 << 18

Operations = Mapping[str, Callable[[], object]]


@dataclass(frozen=True)
class Traffic:
    """Minimal bytes per row that an operation moves.

    Attributes
    ----------
    read, written : int
    """

    read: int
    written: int

    def floor(self, n_rows: int, read: float, fill: float) -> float:
        """Return the minimal seconds for `n_rows` rows, given the seconds to read and to fill a byte."""
        return n_rows * (self.read * read + self.written * fill)


def traffic(program: Program) -> Traffic:
    """Return the traffic of a program: each source column once, each cell of the matrix once."""
    import numpy as np

    from gpupipe_kernels.program.opcodes import BLOCKS

    n_bytes = sum(np.dtype(BLOCKS[block]).itemsize for block, _ in program.sources)
    return Traffic(n_bytes, 4 * program.n_columns)


def bandwidth_operations(cells: Array, n_threads: int) -> Operations:
    """Return operations that read and fill float32 cells sequentially, with NumPy on several threads."""
    import numpy as np

    from gpupipe_kernels.threads import run_blocks

    def over_blocks(function: Callable[[Array], object]) -> Callable[[], object]:
        def block(start: int, stop: int) -> None:
            function(cells[start:stop])

        return lambda: run_blocks(block, len(cells), BLOCK_CELLS, n_threads)

    return {"read": over_blocks(np.max), "fill": over_blocks(lambda part: part.fill(0.0))}


def interleaved(operations: Operations, rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Return the seconds of each operation per round, run in turns so that other load affects all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in operations}
    for _ in range(rounds):
        for name, run in operations.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def measure(config: Path, n_rows: int) -> dict[str, Any]:
    """Return the results for one size: nanoseconds per row and multiples of the floor, medians over all rounds."""
    from gpupipe.bench.clock import StageClock
    from gpupipe.bench.stages import read_and_split
    from gpupipe.config import load_config
    from gpupipe.datasets.churn import write

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "customers.parquet"
        write(file, rows=n_rows)
        split = read_and_split(load_config(config, environment={**os.environ, "CHURN_FILE": str(file)}), StageClock())
        return _figures(split)


def fit_with(engine: str, backend: Backend, split: SplitTable, table: Table) -> FittedFeatures:
    """Fit the features of a configuration on the rows of `table`, with reductions by ``"numpy"`` or ``"numba"``."""
    from gpupipe.features.program.fit import fit_features
    from gpupipe.features.statistics.training import Statistics

    config, learned = split.job.config, split.rows.statistics
    assert learned is not None
    statistics = Statistics(table, backend, learned.target, config.seed, engine)
    return fit_features(config.features, statistics, "dense")


def _figures(split: SplitTable) -> dict[str, Any]:
    from gpupipe.features.program.fit import fit_features
    from gpupipe.table.arrange import arrange
    from gpupipe_kernels.interpreters.numpy import interpreter
    from gpupipe_kernels.reduce.numba import engine as numba_engine

    job, learned = split.job, split.rows.statistics
    assert learned is not None
    backend, features = job.backend, fit_features(job.config.features, learned, "dense")
    table, program = arrange(learned.table, features.schema, job.backend), features.program
    matrix: Any = backend.xp.zeros((table.n_rows, program.n_columns), "float32", "F")
    numba_engine.warm()

    def transform() -> None:
        interpreter.run(program, table.blocks, matrix, None, backend.n_threads)

    def fit(engine: str) -> Callable[[], object]:
        kept = CpuBackend()  # start its threads once
        return lambda: fit_with(engine, kept, split, table)

    needed = traffic(program)
    read = Traffic(needed.read + (learned.target.values.itemsize if learned.target else 0), 0)
    operations: dict[str, tuple[Callable[[], object], Traffic]] = {
        "transform": (transform, needed),
        "fit, NumPy": (fit("numpy"), read),
        "fit, Numba": (fit("numba"), read),
    }
    cells = matrix.T.reshape(-1)
    seconds = interleaved(
        {**bandwidth_operations(cells, backend.n_threads), **{name: run for name, (run, _) in operations.items()}}
    )
    figures = {
        name: _multiple(name, moved, table.n_rows, cells.nbytes, seconds) for name, (_, moved) in operations.items()
    }
    return {
        "rows": table.n_rows, "columns": program.n_columns, "threads": backend.n_threads,
        "bytes_read": needed.read, "bytes_written": needed.written, "load": os.getloadavg()[0],
        "read_gb_per_second": cells.nbytes / statistics.median(seconds["read"]) / 1e9,
        "fill_gb_per_second": cells.nbytes / statistics.median(seconds["fill"]) / 1e9,
        "operations": figures,
    }  # fmt: skip


def _multiple(
    name: str, moved: Traffic, n_rows: int, n_bytes: int, seconds: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """Return the time of an operation, and its ratio to the floor of the same round."""
    rounds = zip(seconds[name], seconds["read"], seconds["fill"], strict=True)
    multiples = [took / moved.floor(n_rows, read / n_bytes, fill / n_bytes) for took, read, fill in rounds]
    least = moved.floor(n_rows, min(seconds["read"]) / n_bytes, min(seconds["fill"]) / n_bytes)
    return {
        "nanoseconds_a_row": statistics.median(seconds[name]) / n_rows * 1e9,
        "multiple": statistics.median(multiples),
        "multiple_of_best_rounds": min(seconds[name]) / least,
    }


def text_of(figures: Mapping[str, Any]) -> str:
    """Return the results for one size as lines of text."""
    head = (
        f"{figures['rows']:,} rows, {figures['columns']} columns, {figures['threads']} threads, "
        f"load {figures['load']:.1f}: "
        f"{figures['bytes_read']} bytes a row to read at {figures['read_gb_per_second']:.1f} GB/s, "
        f"{figures['bytes_written']} to write at {figures['fill_gb_per_second']:.1f}"
    )
    lines = [
        f"  {name:<22}{operation['nanoseconds_a_row']:8.1f} ns a row{operation['multiple']:8.2f} x floor"
        f"{operation['multiple_of_best_rounds']:8.2f} (best rounds)"
        for name, operation in figures["operations"].items()
    ]
    return "\n".join([head, *lines])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the results for every size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floor", description=__doc__)
    parser.add_argument("config", type=Path)
    parser.add_argument(
        "--rows", type=int, nargs="+", default=ROWS, help="numbers of customers (default: 1 and 5 million)"
    )
    options = parser.parse_args(arguments)
    for n_rows in options.rows:
        print(text_of(measure(options.config, n_rows)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

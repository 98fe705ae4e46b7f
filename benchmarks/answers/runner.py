"""Runs of cells in an order in which a partial run is useful: by fold, then small tables first, then by contender."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.answers.cells import CHECKOUT, Contender, Resources, run_cell
from benchmarks.answers.records import CellRecord, append_record, read_records
from benchmarks.answers.splits import fold_count
from benchmarks.answers.tables import AnswerTable

if TYPE_CHECKING:
    import pandas as pd

BUSY_SHARE = 0.15  # of the cores, used by other programs: more disturbs the measurement
PATIENCE_S, SAMPLE_S = 60.0, 2.0


@dataclass(frozen=True)
class PlannedCell:
    """A cell to run."""

    table: AnswerTable
    fold: int
    contender: Contender

    def key(self, limit_s: float) -> tuple[str, int, str, float]:
        """Return the key of the result; see `CellRecord.key`."""
        return self.table.name, self.fold, self.contender.name, limit_s if self.contender.is_limited else 0.0


class MachineIsBusyError(Exception):
    """Other programs use the machine."""


def plan_cells(tables: Sequence[AnswerTable], contenders: Sequence[Contender], n_folds: int) -> list[PlannedCell]:
    """Return the cells: all contenders on fold 0 of the first table, of the second, and so on; then fold 1."""
    return [
        PlannedCell(table, fold, contender)
        for fold in range(n_folds)
        for table in tables
        if fold < fold_count(table)
        for contender in contenders
    ]


def parse_shard(text: str) -> tuple[int, int]:
    """Return the number of the shard, from 0, and the number of shards, from ``1/4``.

    Raises
    ------
    ValueError
        If the text is anything else.
    """
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        message = f"expected a shard such as 1/4, found {text!r}"
        raise ValueError(message)
    return int(number) - 1, int(count)


def run_cells(
    cells: Iterable[PlannedCell],
    tables_dir: Path,
    output: Path,
    resources: Resources,
    *,
    allow_busy: bool = False,
    retry: bool = False,
) -> Iterator[CellRecord]:
    """Run the cells that the output lacks, append their results to it and yield them.

    Raises
    ------
    MachineIsBusyError
        If other programs use more than 15% of the cores for a minute, unless `allow_busy`.
    """
    known = read_records([output] if output.exists() else [])
    done = {record.key for record in known if not (retry and record.error)}
    loaded: tuple[str, pd.DataFrame] | None = None
    for cell in cells:
        if cell.key(resources.limit_s) in done:
            continue
        if loaded is None or loaded[0] != cell.table.name:
            loaded = cell.table.name, _read(tables_dir, cell.table)
        busy = wait_until_idle(allow_busy=allow_busy)
        record = run_cell(cell.table, loaded[1], cell.fold, cell.contender, resources, busy)
        append_record(output, record)
        yield record


def wait_until_idle(*, allow_busy: bool) -> float:
    """Return the number of cores that other programs use, after waiting for at most a minute until they are few."""
    import psutil

    limit = BUSY_SHARE * (os.cpu_count() or 1)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        busy: float = psutil.cpu_percent(0.1 if allow_busy else SAMPLE_S) / 100 * (os.cpu_count() or 1)
        if allow_busy or busy <= limit:
            return round(busy, 2)
        if time.monotonic() > deadline:
            message = (
                f"other programs use {busy:.1f} of {os.cpu_count()} cores, and a time limit then means less work: "
                "end them, or give --allow-busy for a trial whose results are not kept"
            )
            raise MachineIsBusyError(message)


def write_tables(tables: Iterable[AnswerTable], tables_dir: Path, python: Path | None) -> None:
    """Write the tables that the folder lacks, by the interpreter of the environment of the tables.

    Raises
    ------
    ValueError
        If a table is missing without an interpreter to write it, or its program fails.
    """
    tables_dir.mkdir(parents=True, exist_ok=True)
    for table in tables:
        path = _table_path(tables_dir, table)
        if path.exists():
            continue
        if python is None:
            message = f"{path} does not exist: give the environment of the tables, --python tables=PATH"
            raise ValueError(message)
        print(f"writing {path}", file=sys.stderr, flush=True)
        partial = path.with_suffix(".partial")
        command = [str(python), "-m", "benchmarks.answers.sources", table.name, str(partial)]
        done = subprocess.run(
            command,
            cwd=CHECKOUT,
            env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            message = f"table {table.name}: {done.stderr.strip().splitlines()[-1]}"
            raise ValueError(message)
        partial.replace(path)


def _table_path(tables_dir: Path, table: AnswerTable) -> Path:
    return tables_dir / f"{table.name}.parquet"


def _read(tables_dir: Path, table: AnswerTable) -> pd.DataFrame:
    import pandas as pd

    return pd.read_parquet(_table_path(tables_dir, table))

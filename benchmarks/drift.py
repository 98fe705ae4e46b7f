"""Time and memory of ``gpupipe drift`` on a wide table, relative to reading the file alone.

    python -m benchmarks.drift --rows 3000000 --columns 1000 [--folder DIR] [--json FILE]

The table has float32 columns of normal, lognormal and integer values, one in ten with nulls; a tenth of the columns is
shifted by 0.3 standard deviations. It is written to a new folder in row groups of 65,536 rows, and removed afterwards.
The model is a ridge regression of 20,000 rows of the same distribution without a shift.

Each measurement is a separate process: the bare read decodes every row group with pyarrow and drops it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

GROUP_ROWS = 65_536
MODEL_ROWS = 20_000
READ = """
import sys
import pyarrow.parquet as pq

file = pq.ParquetFile(sys.argv[1])
print(sum(file.read_row_group(i).num_rows for i in range(file.metadata.num_row_groups)))
"""


def make_columns(n_rows: int, n_columns: int, seed: int, shift: float) -> dict[str, Any]:
    """Return the columns of some rows by name, float32; a tenth of them is shifted."""
    import numpy as np

    rng = np.random.default_rng(seed)
    columns = {}
    for i in range(n_columns):
        x = rng.standard_normal(n_rows, np.float32)
        if i % 10 == 0:
            x += np.float32(shift)
        if i % 3 == 1:
            x = np.exp(x)
        elif i % 3 == 2:
            x = np.floor(x * 4)
        if i % 10 == 5:
            x[rng.random(n_rows, np.float32) < 0.05] = np.nan
        columns[f"c{i:04}"] = x
    return columns


def write_table(path: Path, n_rows: int, n_columns: int) -> None:
    """Write the table to compare."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def table(start: int) -> pa.Table:
        height = min(GROUP_ROWS, n_rows - start)
        columns = make_columns(height, n_columns, 1 + start, 0.3)
        return pa.table({name: pa.array(x, from_pandas=True) for name, x in columns.items()})

    first = table(0)
    with pq.ParquetWriter(path, first.schema, use_dictionary=False, compression="none") as writer:
        writer.write_table(first)
        for start in range(GROUP_ROWS, n_rows, GROUP_ROWS):
            writer.write_table(table(start))


def train(folder: Path, n_columns: int) -> Path:
    """Return the directory of a run on rows without a shift."""
    import pandas as pd

    import gpupipe as gp

    columns = make_columns(MODEL_ROWS, n_columns, 0, 0.0)
    frame = pd.DataFrame({**columns, "y": columns["c0000"] + columns["c0003"]})
    pipeline = gp.Pipeline(
        frame, target="y", models=["ridge"], device="cpu", report={"enabled": False}, evaluate={"importance": False}
    )
    run: Path = pipeline.run(folder / "run", quiet=True).path
    return run


def measure(*command: str) -> dict[str, Any]:
    """Return wall seconds, processor seconds and peak memory of a process, and what it printed."""
    start = time.perf_counter()
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with exit code {process.returncode}")
    return {
        "seconds": time.perf_counter() - start,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
        "text": text,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table, measure it, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    with TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        run, table = train(folder, given.columns), folder / "table.parquet"
        write_table(table, given.rows, given.columns)
        model = run / "model"
        reference = sum((model / file).stat().st_size for file in ("drift.json", "drift.npz"))
        records = []
        for _ in range(given.repeats):
            read = measure("-c", READ, str(table))
            drift = measure("-m", "gpupipe", "drift", str(run), str(table), "--device", "cpu", "--json")
            records.append({"read": read, "drift": drift})
        best = min(records, key=lambda each: each["drift"]["seconds"])
        report = json.loads(best["drift"].pop("text"))
        drifted = [column["name"] for column in report["columns"] if column["severity"] != "none"]
        expected = {f"c{i:04}" for i in range(0, given.columns, 10)}
        n_bytes = table.stat().st_size
    print(
        f"{given.rows:,} rows x {given.columns:,} columns, {n_bytes / 1e9:.1f} GB, reference {reference / 1e3:.1f} kB"
    )
    print("| | seconds | processor seconds | peak MiB |\n| --- | --- | --- | --- |")
    for what in ("read", "drift"):
        found = best[what]
        print(f"| {what} | {found['seconds']:.1f} | {found['processor_seconds']:.1f} | {found['peak_mib']:,.0f} |")
    wrong = len(set(drifted) ^ expected)
    print(f"{len(drifted)} columns drifted, {wrong} of them wrong or missing; {report['n_scored']:,} rows predicted")
    if given.json:
        given.json.write_text(
            json.dumps([{w: {k: v for k, v in r[w].items() if k != "text"} for w in r} for r in records])
        )


if __name__ == "__main__":
    main()

"""Whole runs on tables of 1 to 50 million rows: seconds and memory, compared with scripts written by hand.

The workload is that of `benchmarks.device.workload`, on the CPU: 20 columns of generated customers, 23 features, and
100 trees of XGBoost. Every implementation is a fresh process that reads the same files; what is measured is all of it,
imports included. gpupipe's run also exports the model, and then predicts all rows of the files with it::

    python -m benchmarks.large --rows 1000000 10000000 --format parquet csv --folder /tmp/large
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks.device.processes import environment
from benchmarks.device.workload import write_config, write_data
from gpupipe.children import python_command

PEERS = Path(__file__).parent / "peers"
GIB = 2**30
FORMATS = ("parquet", "csv")
WITHIN = "gpupipe, limits.memory 4GiB"
CLUSTER = "gpupipe, 2 worker processes"
RUNS = {
    "gpupipe": (),
    WITHIN: ("limits.memory=4GiB",),
    CLUSTER: ("cluster.scheduler=local", "cluster.workers=2"),
}
SCRIPTS = {"pandas + XGBoost": "churn_pandas", "polars + XGBoost": "churn_polars", "DuckDB + XGBoost": "churn_duckdb"}
PREDICT = "gpupipe predict"


@dataclass(frozen=True)
class Measurement:
    """Resources of one process and of its children: seconds, and GiB at its peak (of the largest single process)."""

    seconds: float
    cpu_seconds: float
    peak_gib: float
    roc_auc: float | None = None


def measure(command: Sequence[str], log: Path) -> Measurement:
    """Run a command to its end; raise RuntimeError with the end of what it said if it fails."""
    start = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment())
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {log.read_text(errors='replace')[-2000:]}")
    seconds = time.perf_counter() - start
    return Measurement(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / GIB)


def write_csv(parquet: Path, folder: Path) -> None:
    """Write the same rows as CSV, a file for each file."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for path in sorted(parquet.iterdir()):
        file = pq.ParquetFile(path)
        with pyarrow.csv.CSVWriter(folder / f"{path.stem}.csv", file.schema_arrow) as writer:
            for batch in file.iter_batches():
                writer.write_batch(batch)


def run_gpupipe(folder: Path, data: str, settings: Sequence[str]) -> Measurement:
    """Run the configuration of the workload; its model is left in ``run/model``."""
    config = write_config(folder, f'path: "{data}"')
    shutil.rmtree(folder / "run", ignore_errors=True)
    options = [f"--set={setting}" for setting in ("device=cpu", "evaluate.importance=false", *settings)]
    found = measure(
        python_command("-m", "gpupipe", "run", str(config), "--quiet", "--output", str(folder / "run"), *options),
        folder / "log.txt",
    )
    (metrics,) = json.loads((folder / "run" / "metrics.json").read_text())["models"].values()
    return Measurement(**{**asdict(found), "roc_auc": metrics["roc_auc"]})


def run_script(folder: Path, data: Path, name: str) -> Measurement:
    """Run one of the scripts written by hand."""
    out = folder / "out.json"
    command = python_command(str(PEERS / f"{name}.py"), "--data", str(data), "--json", str(out))
    found = measure(command, folder / "log.txt")
    return Measurement(**{**asdict(found), "roc_auc": json.loads(out.read_text())["samples"][-1]["auc"]})


def run_predict(folder: Path, data: str) -> Measurement:
    """Predict all rows with the model that the last run left."""
    predictions = folder / "predictions.parquet"
    predictions.unlink(missing_ok=True)
    model = str(folder / "run" / "model")
    command = python_command("-m", "gpupipe", "predict", model, data, "--output", str(predictions), "--quiet")
    return measure(command, folder / "log.txt")


def main() -> None:
    """Measure what the command line names, and write each figure as a line of JSON when it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--format", choices=FORMATS, nargs="+", default=["parquet"])
    parser.add_argument("--names", nargs="+", default=[*RUNS, PREDICT, *SCRIPTS], help="default: all")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True, help="for files: 0.2 GB per million rows")
    options = parser.parse_args()
    for n_rows in options.rows:
        parquet = options.folder / f"{n_rows}.parquet"
        if not parquet.exists():
            write_data(parquet, n_rows, os.cpu_count() or 1)
        for kind in options.format:
            data = options.folder / f"{n_rows}.{kind}"
            if not data.exists():
                write_csv(parquet, data)
            _compare(options, data, n_rows, kind)


def _compare(options: argparse.Namespace, data: Path, n_rows: int, kind: str) -> None:
    """Measure all implementations in turn on the files of a folder."""
    found: dict[str, list[Measurement]] = {}
    files = f"{data}/*.{kind}"
    for _ in range(options.repeat):
        for name in options.names:
            try:
                if name in RUNS:
                    one = run_gpupipe(options.folder, files, RUNS[name])
                elif name == PREDICT:
                    one = run_predict(options.folder, files)
                else:
                    one = run_script(options.folder, data, SCRIPTS[name])
            except RuntimeError as error:
                print(json.dumps({"rows": n_rows, "format": kind, "name": name, "error": str(error)}), flush=True)
                continue
            found.setdefault(name, []).append(one)
            print(json.dumps({"rows": n_rows, "format": kind, "name": name, **asdict(one)}), flush=True)
    for name, measured in found.items():
        seconds, peak = median(one.seconds for one in measured), max(one.peak_gib for one in measured)
        microseconds = seconds / n_rows * 1e6
        print(f"{n_rows:,} rows, {kind}, {name}: {seconds:.1f} s ({microseconds:.2f} µs per row), {peak:.2f} GiB")


if __name__ == "__main__":
    main()

"""Customers of `configs/online_retail.yaml` scored from invoice lines, in DuckDB and by `gpupipe predict`.

    GPUPIPE_DATA=DIR python -m benchmarks.sql_history --folder DIR [--repeats N]

Both filter the lines, group them to orders, compute the history of each customer before 2011-12-01 and predict.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np

import gpupipe as gp

CONFIG = Path(__file__).parents[1] / "configs" / "online_retail.yaml"
AS_OF = "2011-12-01"


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    lines, scored = options.folder / "lines.parquet", options.folder / "scored.parquet"
    run = gp.run(CONFIG, overrides=[f"output={options.folder}"]).path
    file = f"{os.environ['GPUPIPE_DATA']}/online-retail/online_retail.csv.gz"
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE retail AS FROM read_csv('{file}', types={{'InvoiceNo': 'VARCHAR'}})")
    connection.execute(f"COPY retail TO '{lines}'")
    names = {"orders": "retail", "lines": "retail"}
    query = gp.load_model(run, "cpu").to_sql("duckdb", tables=names, as_of=AS_OF).text
    command = [sys.executable, "-m", "gpupipe", "predict", str(run), "--table", f"orders={lines}", "--table"]
    command += [f"lines={lines}", "--as-of", AS_OF, "-o", str(scored), "--force", "--quiet"]
    ways: dict[str, Callable[[], Any]] = {
        "query": lambda: connection.execute(f"CREATE OR REPLACE TABLE scores AS {query}"),
        "predict": lambda: subprocess.run(command, check=True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.repeats):
        for name, score in ways.items():
            start = time.perf_counter()
            score()
            seconds[name].append(time.perf_counter() - start)
    both = f"FROM scores JOIN '{scored}' AS own USING (CustomerID)"
    found = connection.execute(f"SELECT scores.probability_true - own.probability_true AS apart {both}").fetchnumpy()
    print(f"{len(query):,} characters; {len(found['apart']):,} customers within {np.abs(found['apart']).max():.1e}")
    for name, each in seconds.items():
        print(f"{name:9} {median(each):6.2f} s, {median(each) / median(seconds['predict']):.2f} x predict")


if __name__ == "__main__":
    main()

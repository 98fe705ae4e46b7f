"""Seconds of DuckDB with an exported query, compared with `gpupipe predict` and with a transfer of the table.

    python -m benchmarks.sql_seconds --folder DIR [--rows N] [--repeats N] [--peer PYTHON]

The model is XGBoost, 150 trees of depth 4, with the features of `configs/churn.yaml`. --peer is a Python with orbital
in a separate environment; it gets the same rows, and its pipelines have fewer features (`peers/orbital_query.py`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import yaml

CONFIG = Path(__file__).parents[1] / "configs" / "churn.yaml"
PEER = Path(__file__).parent / "peers" / "orbital_query.py"
N_TRAIN, SEED = 100_000, 3
MODEL = {"xgboost": {"defaults": "library", "n_estimators": 150, "max_depth": 4, "learning_rate": 0.1}}


def prepare(folder: Path, n_rows: int) -> tuple[Path, Path]:
    """Return a run directory and a file of customers, made once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gpupipe.datasets.churn import customers

    run, rows = folder / "run", folder / f"rows_{n_rows}.parquet"
    if not run.exists():
        config = yaml.safe_load(CONFIG.read_text("utf8"))
        config["source"]["rows"] = N_TRAIN
        (folder / "config.yaml").write_text(yaml.safe_dump(config | {"models": [MODEL], "report": {"enabled": False}}))
        command = [sys.executable, "-m", "gpupipe", "run", str(folder / "config.yaml"), "--output", str(run), "--quiet"]
        subprocess.run(command, check=True)
    if not rows.exists():
        table = customers(n_rows, SEED)
        plain = [each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each for each in table]
        pq.write_table(pa.table(plain, names=table.column_names), rows)
    return run, rows


def ways(folder: Path, run: Path, rows: Path) -> dict[str, Callable[[], Any]]:
    """Return the ways to score the rows: the query, the command, and the model between two transfers."""
    import duckdb

    import gpupipe as gp

    model = gp.load_model(run, "cpu")
    query = model.to_sql("duckdb", "customers").text
    print(f"{len(query):,} characters, {query.splitlines()[2]}")
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE customers AS FROM '{rows}'")
    scored = str(folder / "scored.parquet")
    predict = [sys.executable, "-m", "gpupipe", "predict", str(run), str(rows), "-o", scored, "--force", "--quiet"]

    def transfer() -> None:
        found = model.predict_table(connection.sql("FROM customers").to_arrow_table())
        connection.register("found", found)
        connection.execute("CREATE OR REPLACE TABLE scores AS FROM found")

    return {
        "query": lambda: connection.execute(f"CREATE OR REPLACE TABLE scores AS {query}"),
        "predict": lambda: subprocess.run(predict, check=True),
        "transfer": transfer,
    }


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    run, rows = prepare(options.folder, options.rows)
    seconds: dict[str, list[float]] = {}
    for _ in range(options.repeats):
        for name, score in ways(options.folder, run, rows).items():
            start = time.perf_counter()
            score()
            seconds.setdefault(name, []).append(time.perf_counter() - start)
    for name, found in seconds.items():
        print(f"{name:9} {median(found):6.2f} s, {median(found) / median(seconds['predict']):.2f} x predict")
    if options.peer:
        subprocess.run([options.peer, PEER, rows], check=True)


if __name__ == "__main__":
    main()

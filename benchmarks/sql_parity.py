"""Predictions of exported SQL queries in databases, compared with those of the model on the test rows of real tables.

    python -m benchmarks.sql_parity --tables-dir DIR --output FILE [--tables NAME,...] [--models NAME,...] \
        [--postgres URI]

DIR has the tables of `benchmarks.answers` as Parquet. Each is trained with the configuration of `gpupipe init` on the
training rows of fold 0 (a fifth of them chooses among the models, instead of five folds), and each engine computes the
test rows from a table with the types of the file. FILE gets a line of JSON for each table and engine: the largest
difference of a probability, or of a prediction by the largest one; or the refusal.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

import gpupipe as gp
from benchmarks.answers.contenders.exchange import TEST_FILE, TRAIN_FILE, AnswerTask
from benchmarks.answers.contenders.gpupipe_run import adapt_config
from benchmarks.answers.splits import make_fold
from benchmarks.answers.tables import AnswerTable, select_tables

TABLE, ROW = "answers", "row number"
FIT_SECONDS, VALIDATION = 900, 0.2


def _duckdb(rows: pa.Table, query: str, uri: str) -> pa.Table:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("given", rows)
        connection.execute(f"CREATE TABLE {TABLE} AS SELECT * FROM given")
        return connection.sql(query).to_arrow_table()


def _sqlite(rows: pa.Table, query: str, uri: str) -> pa.Table:
    with closing(sqlite3.connect(":memory:")) as connection:
        names = ", ".join('"{}"'.format(name.replace('"', '""')) for name in rows.column_names)
        connection.execute(f"CREATE TABLE {TABLE} ({names})")
        places = ", ".join("?" * rows.num_columns)
        plain = [values.cast(pa.string()) if pa.types.is_temporal(values.type) else values for values in rows.columns]
        each = zip(*(values.to_pylist() for values in plain), strict=True)
        connection.executemany(f"INSERT INTO {TABLE} VALUES ({places})", each)
        cursor = connection.execute(query)
        found = list(zip(*cursor.fetchall(), strict=True))
        return pa.table({about[0]: list(values) for about, values in zip(cursor.description, found, strict=True)})


def _postgres(rows: pa.Table, query: str, uri: str) -> pa.Table:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(uri) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(TABLE, rows, mode="create", temporary=True)
        cursor.execute(query)
        return cursor.fetch_arrow_table()


Engine = Callable[[pa.Table, str, str], pa.Table]
ENGINES: dict[str, Engine] = {"duckdb": _duckdb, "sqlite": _sqlite, "postgres": _postgres}


def train(table: AnswerTable, tables_dir: Path, folder: Path, models: list[str]) -> tuple[gp.Model, pa.Table]:
    """Return the champion of `gpupipe init`, and the test rows without the target."""
    whole = pq.read_table(tables_dir / f"{table.name}.parquet")
    train_rows, test_rows = make_fold(table, whole.to_pandas(), 0)
    pq.write_table(whole.take(train_rows), folder / TRAIN_FILE)
    task = AnswerTask(table.target, table.task, table.metric, 60, 2, 0, table.group, table.time, {"models": "init"})
    path, output = folder / "config.yaml", folder / "run"
    _gpupipe("init", str(folder / TRAIN_FILE), "--target", table.target, "-o", str(path))
    config = adapt_config(yaml.safe_load(path.read_text("utf8")), task, len(train_rows))
    config["split"] = {name: config["split"][name] for name in ("group", "time") if name in config["split"]}
    config["split"]["test_size"] = VALIDATION
    config["models"] = [each for each in config["models"] if not models or _name(each) in models]
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), "utf8")
    _gpupipe("run", str(path), "--output", str(output))
    rows = whole.take(test_rows).drop_columns([table.target])
    pq.write_table(rows, folder / TEST_FILE)
    return gp.load_model(output, "cpu"), rows


def _name(model: Any) -> str:
    return model if isinstance(model, str) else str(model.get("name", next(iter(model))))


def _gpupipe(*words: str) -> None:
    command = [sys.executable, "-m", "gpupipe", *words, "--quiet"][: None if words[0] != "init" else -1]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=FIT_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"gpupipe {words[0]}: {done.stderr.decode()[-300:]}")


def compare(model: gp.Model, rows: pa.Table, engine: str, uri: str) -> dict[str, Any]:
    """Return the result of an engine."""
    options: dict[str, Any] = {"uri": uri} if engine == "postgres" else {}
    try:
        start = time.perf_counter()
        exported = model.to_sql(engine, TABLE, keys=[ROW], **options)
    except gp.errors.GpupipeError as error:
        return {"refused": " ".join(str(error).split())[:300]}
    middle = time.perf_counter()
    found = ENGINES[engine](rows.append_column(ROW, pa.array(range(len(rows)))), exported.text, uri).sort_by(ROW)
    end = time.perf_counter()
    expected = model.predict_table(rows)
    largest, flips = 0.0, 0
    names = [name for name in exported.columns if name != ROW]
    for name in names:
        own, wanted = (np.asarray(each.column(name).to_pylist()) for each in (found, expected))
        if name == "prediction" and model.goal.labels:
            flips = int((own.astype(str) != wanted.astype(str)).sum())
        else:
            scale = 1.0 if model.goal.labels else np.abs(wanted).max()
            largest = max(largest, float(np.abs(own.astype(float) - wanted).max() / scale))
    seconds = {"export_s": round(middle - start, 2), "query_s": round(end - middle, 2)}
    return {"largest": largest, "flips": flips, "characters": len(exported.text), **seconds}


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables-dir", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tables", default="")
    parser.add_argument("--models", default="", help="of those that init writes, by name; all without it")
    parser.add_argument("--postgres", default="", help="URI of a server; without it PostgreSQL is skipped")
    options = parser.parse_args()
    engines = [name for name in ENGINES if name != "postgres" or options.postgres]
    chosen = [name for name in options.models.split(",") if name]
    done = options.output.read_text("utf8").splitlines() if options.output.exists() else []
    finished = {json.loads(line)["table"] for line in done}
    for table in select_tables([name for name in options.tables.split(",") if name]):
        if table.name in finished:
            continue
        with tempfile.TemporaryDirectory() as folder, options.output.open("a", encoding="utf8") as output:
            try:
                model, rows = train(table, options.tables_dir, Path(folder), chosen)
                found = [compare(model, rows, engine, options.postgres) | {"engine": engine} for engine in engines]
                about = {"table": table.name, "rows": len(rows), "champion": model.estimator.library}
            except Exception as error:
                found, about = [{"failed": f"{type(error).__name__}: {error}"[:400]}], {"table": table.name}
            for each in found:
                line = json.dumps(about | each)
                print(line, file=output)
                print(line, flush=True)


if __name__ == "__main__":
    main()

"""Workload of `benchmarks.device.workload` on all cores of the host, in DuckDB, NumPy and XGBoost."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from benchmarks.churn import CITY, FOLDS, NUMBERS, PERIODS, SKEWED, TARGET, TEST_SHARE, TIME
from benchmarks.device.workload import CATEGORIES, report
from benchmarks.peers.churn_pandas import train_and_score
from benchmarks.peers.target_rates import rate_of_rows
from gpupipe.bench.clock import StageClock
from gpupipe.typing import Array

if TYPE_CHECKING:
    import duckdb

CODED = (*CATEGORIES, CITY)


def run(files: list[str], clock: StageClock, options: argparse.Namespace) -> float:
    """Read, compute features, train, predict; return the ROC-AUC of the test rows."""
    import duckdb
    import numpy as np

    connection = duckdb.connect()
    with clock("read"):
        _read(connection, files)
        y = connection.sql("SELECT y FROM customers").fetchnumpy()["y"]
    with clock("split"):
        rng = np.random.default_rng(0)
        is_train = rng.random(len(y), np.float32) >= TEST_SHARE
        fold = rng.integers(0, FOLDS, len(y), np.int8)
    with clock("features"):
        X = _features(connection, y, is_train, fold)
        connection.close()
    return train_and_score(X, y, is_train, clock)


def _read(connection: duckdb.DuckDBPyConnection, files: list[str]) -> None:
    """Create the table of customers, with categories as integers of one byte or two."""
    kinds = dict.fromkeys((*CODED, TARGET), "VARCHAR")  # DuckDB reads Yes and No as booleans otherwise
    source = f"read_csv({files}, types={kinds})" if files[0].endswith(".csv") else f"read_parquet({files})"
    numbers = [f"CAST({name} AS FLOAT) AS {name}" for name in NUMBERS]
    connection.execute("SET preserve_insertion_order = true")
    levels = ", ".join(f"list_sort(list(DISTINCT {name}) FILTER ({name} IS NOT NULL))" for name in CODED)
    found = connection.execute(f"SELECT {levels} FROM {source}").fetchone()  # reads text files once for all columns
    for name, texts in zip(CODED, found or (), strict=True):
        listed = ", ".join(f"'{text}'" for text in texts)
        connection.execute(f'CREATE TYPE "{name} levels" AS ENUM ({listed})')
    codes = [f'enum_code(CAST({name} AS "{name} levels")) AS {name}' for name in CODED]
    selected = ", ".join((*numbers, *codes, TIME, f"CAST({TARGET} = 'Yes' AS FLOAT) AS y"))
    connection.execute(f"CREATE TABLE customers AS SELECT {selected} FROM {source}")


def _features(connection: duckdb.DuckDBPyConnection, y: Array, is_train: Array, fold: Array) -> Array:
    import numpy as np

    parts = [f"CAST(date_part('{part}', {TIME}) AS FLOAT) AS {part}" for part in ("hour", "isodow")]
    n_columns = len(NUMBERS) + 1 + 2 * len(PERIODS) + len(CATEGORIES)
    X = np.empty((len(y), n_columns), "float32", order="F")
    for j, name in enumerate(NUMBERS):
        x = _column(connection, name)
        x[np.isnan(x)] = np.nanmedian(x[is_train])
        x = np.log1p(x) if name in SKEWED else x
        X[:, j] = (x - x[is_train].mean(dtype="float64")) / x[is_train].std(dtype="float64")
    j = len(NUMBERS)
    X[:, j] = rate_of_rows(_column(connection, CITY).astype("int32"), y, is_train, fold, np)
    for part, period in zip(parts, PERIODS.values(), strict=True):
        angle = _column(connection, part) * np.float32(2 * np.pi / period)
        X[:, j + 1], X[:, j + 2] = np.sin(angle), np.cos(angle)
        j += 2
    for i, name in enumerate(CATEGORIES, start=j + 1):
        X[:, i] = _column(connection, name)
    return X


def _column(connection: duckdb.DuckDBPyConnection, expression: str) -> Array:
    """Return one column in the order of the rows, float32; nulls as NaN."""
    import numpy as np

    (values,) = connection.sql(f"SELECT {expression} FROM customers").fetchnumpy().values()
    filled: Array = np.ma.filled(values.astype("float32"), np.nan)
    return filled


if __name__ == "__main__":
    report(run)

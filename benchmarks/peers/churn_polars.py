"""Workload of `benchmarks.device.workload` on all cores of the host, in polars, NumPy and XGBoost."""

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
    import polars as pl


def run(files: list[str], clock: StageClock, options: argparse.Namespace) -> float:
    """Read, compute features, train, predict; return the ROC-AUC of the test rows."""
    import numpy as np
    import polars as pl

    with clock("read"):
        read = pl.scan_csv if files[0].endswith(".csv") else pl.scan_parquet
        scan = read(files, try_parse_dates=True) if read is pl.scan_csv else read(files)
        scan = scan.select(
            pl.col(NUMBERS).cast(pl.Float32),
            pl.col(*CATEGORIES, CITY).cast(pl.Categorical),
            TIME,
            y=(pl.col(TARGET) == "Yes").cast(pl.Float32),
        )
        frame = scan.collect()
        y = frame["y"].to_numpy()
    with clock("split"):
        rng = np.random.default_rng(0)
        is_train = rng.random(len(y), np.float32) >= TEST_SHARE
        fold = rng.integers(0, FOLDS, len(y), np.int8)
    with clock("features"):
        X = _features(frame, y, is_train, fold)
        del frame
    return train_and_score(X, y, is_train, clock)


def _features(frame: pl.DataFrame, y: Array, is_train: Array, fold: Array) -> Array:
    import numpy as np
    import polars as pl

    seen = frame.filter(pl.Series(is_train))
    median = seen.select(pl.col(NUMBERS).median()).row(0, named=True)
    number = {}
    for name in NUMBERS:
        filled = pl.col(name).fill_null(median[name])
        number[name] = filled.log1p() if name in SKEWED else filled
    learned = seen.select(
        *(x.mean().alias(f"{name} mean") for name, x in number.items()),
        *(x.std(ddof=0).alias(f"{name} std") for name, x in number.items()),
    ).row(0, named=True)
    columns = [((x - learned[f"{name} mean"]) / learned[f"{name} std"]).cast(pl.Float32) for name, x in number.items()]
    circles = []
    for part, period in PERIODS.items():
        angle = getattr(pl.col(TIME).dt, part)().cast(pl.Float32) * np.float32(2 * np.pi / period)
        circles += [angle.sin().alias(f"{part} sin"), angle.cos().alias(f"{part} cos")]
    codes = [pl.col(name).to_physical().cast(pl.Float32) for name in CATEGORIES]
    rate = rate_of_rows(frame[CITY].to_physical().to_numpy(), y, is_train, fold, np)
    made = frame.lazy().select(*columns, pl.Series("rate", rate, pl.Float32), *circles, *codes).collect()
    matrix: Array = made.to_numpy(order="fortran")
    return matrix


if __name__ == "__main__":
    report(run)

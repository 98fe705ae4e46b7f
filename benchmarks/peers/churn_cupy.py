"""Workload of `benchmarks.device.workload`, hand-written for one GPU with CuPy and XGBoost, on generated customers.

As for gpupipe itself, the columns are generated on the host and copied to the device. Everything after that is
hand-written, as fast as the functions of these libraries allow: one pool, one preallocated column-major matrix for all
rows, target rates by `bincount`, the ROC-AUC from one sort on the device.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.churn import CITY, FOLDS, NUMBERS, PERIODS, SKEWED, TARGET, TEST_SHARE, TIME
from benchmarks.device.workload import BOOSTING, CATEGORIES, COLUMNS, FEATURE_TYPES, N_FEATURES, N_TREES, report
from benchmarks.peers.target_rates import rate_of_rows
from gpupipe.bench.clock import StageClock
from gpupipe.typing import Array

SEED = 7
# 1 January 1970 was a Thursday
SECONDS = 1_000_000
DAY_SECONDS = 86_400
FIRST_WEEKDAY = 3


def main() -> None:
    """Run the workload and write its results as JSON."""
    import cupy

    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
    report(run)


def run(files: list[str], clock: StageClock, options: argparse.Namespace) -> float:
    """Generate, compute features, train, predict; return the ROC-AUC of the test rows."""
    import cupy

    with clock("read"):
        columns = generate(options.rows)
        y = columns.pop(TARGET).astype("float32")
        wait()
    with clock("split"):
        rng = cupy.random.default_rng(0)
        is_train = rng.random(len(y)) >= TEST_SHARE
        fold = rng.integers(0, FOLDS, len(y)).astype("int8")
        wait()
    with clock("features"):
        X: Array = cupy.empty((len(y), N_FEATURES), "float32", order="F")
        for j, name in enumerate(NUMBERS):
            X[:, j] = scaled(columns.pop(name), name in SKEWED, is_train)
        j = len(NUMBERS)
        X[:, j] = rate_of_rows(columns.pop(CITY), y, is_train, fold, cupy)
        for part, period in PERIODS.items():
            angle = calendar_part(columns[TIME], part).astype("float32") * (2 * cupy.pi / period)
            X[:, j + 1], X[:, j + 2] = cupy.sin(angle), cupy.cos(angle)
            j += 2
        for i, name in enumerate(CATEGORIES, start=j + 1):
            X[:, i] = columns.pop(name)
        del columns
        wait()
    return train_and_score(X, y, is_train, clock)


def generate(n_rows: int) -> dict[str, Array]:
    """Return the columns on the device: numbers as float32 with NaN, codes as int16, microseconds as int64."""
    import cupy

    from gpupipe.datasets.churn import customers

    table, columns = customers(n_rows, SEED, [*COLUMNS, TARGET]).combine_chunks(), dict[str, Array]()
    for name, column in zip(table.column_names, table.columns, strict=True):
        found = column.chunk(0)
        if name in NUMBERS:
            values = found.cast("float64").fill_null(float("nan")).to_numpy(zero_copy_only=False).astype("float32")
        elif name == TIME:
            values = found.cast("int64").to_numpy()
        else:
            values = found.indices.to_numpy().astype("int16")
        columns[name] = cupy.asarray(values)
    return columns


def calendar_part(microseconds: Array, part: str) -> Array:
    """Return the hour (0 to 23) or the weekday (0: Monday) of times in UTC."""
    seconds = microseconds // SECONDS
    if part == "hour":
        return seconds % DAY_SECONDS // 3600
    weekday: Array = (seconds // DAY_SECONDS + FIRST_WEEKDAY) % 7
    return weekday


def scaled(x: Array, is_skewed: bool, is_train: Array) -> Array:
    """Return a number with the median for nulls, after a logarithm if skewed, standardized."""
    import cupy

    x = cupy.where(cupy.isnan(x), cupy.nanmedian(x[is_train]), x)
    if is_skewed:
        x = cupy.log1p(x)
    seen = x[is_train]
    found: Array = (x - seen.mean()) / seen.std()
    return found


def train_and_score(X: Array, y: Array, is_train: Array, clock: StageClock) -> float:
    """Train on the training rows on the GPU, and return the ROC-AUC of the test rows."""
    with clock("train"):
        booster = _train(X[is_train], y[is_train])
        wait()
    with clock("evaluate"):
        return roc_auc(y[~is_train], booster.inplace_predict(X[~is_train]))


def _train(X: Array, y: Array) -> Any:
    import xgboost

    data = xgboost.QuantileDMatrix(X, y, feature_types=FEATURE_TYPES, enable_categorical=True)
    return xgboost.train({**BOOSTING, "device": "cuda"}, data, num_boost_round=N_TREES)


def roc_auc(y: Array, score: Array) -> float:
    """Return the area under the ROC curve; rows with equal scores form one point of the curve."""
    import cupy

    order = cupy.argsort(-score)
    is_last = cupy.concatenate([cupy.diff(score[order]) != 0, cupy.ones(1, dtype=bool)])  # rows with this score
    last = cupy.flatnonzero(is_last)
    hits = cupy.cumsum(y[order], dtype="float64")[last]
    misses = last + 1 - hits
    area = hits[0] * misses[0] + ((hits[1:] + hits[:-1]) * cupy.diff(misses)).sum()
    return float(area / (2 * hits[-1] * misses[-1]))


def wait() -> None:
    """Wait for the device, so that a stage includes its kernels."""
    import cupy

    cupy.cuda.Device().synchronize()


if __name__ == "__main__":
    main()

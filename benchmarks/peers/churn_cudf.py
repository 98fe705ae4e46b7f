"""Workload of `benchmarks.device.workload`, hand-written for one GPU with cuDF, CuPy and XGBoost.

As fast as the functions of these libraries allow: one pool allocator, one `read_parquet`, categories as codes, one
preallocated column-major matrix for all rows, target rates by `bincount` on codes, the ROC-AUC from one sort on the
device, and only paths on the host. It does not use cuML, so it can run before cuML's libraries have arrived.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from benchmarks.churn import CITY, FOLDS, NUMBERS, PERIODS, SKEWED, TARGET, TEST_SHARE, TIME
from benchmarks.device.workload import CATEGORIES, COLUMNS, N_FEATURES, report
from benchmarks.peers.churn_cupy import scaled, train_and_score, wait
from benchmarks.peers.target_rates import rate_of_rows
from gpupipe.bench.clock import StageClock
from gpupipe.typing import Array

if TYPE_CHECKING:
    import cudf


def main() -> None:
    """Run the workload and write its results as JSON."""
    import cupy
    import rmm
    from rmm.allocators.cupy import rmm_cupy_allocator

    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    cupy.cuda.set_allocator(rmm_cupy_allocator)
    report(run)


def run(files: list[str], clock: StageClock, options: argparse.Namespace) -> float:
    """Read, compute features, train, predict; return the ROC-AUC of the test rows."""
    import cudf
    import cupy

    with clock("read"):
        frame = cudf.read_parquet(files, columns=[*COLUMNS, TARGET])
        y = (frame[TARGET] == "Yes").to_cupy().astype("float32")
        wait()
    with clock("split"):
        rng = cupy.random.default_rng(0)
        is_train = rng.random(len(y)) >= TEST_SHARE
        fold = rng.integers(0, FOLDS, len(y)).astype("int8")
        wait()
    with clock("features"):
        X = _features(frame, y, is_train, fold)
        del frame
        wait()
    return train_and_score(X, y, is_train, clock)


def _features(frame: cudf.DataFrame, y: Array, is_train: Array, fold: Array) -> Array:
    import cupy

    X: Array = cupy.empty((len(y), N_FEATURES), "float32", order="F")
    for j, name in enumerate(NUMBERS):
        x = frame[name].astype("float32").to_cupy(na_value=cupy.nan)
        X[:, j] = scaled(x, name in SKEWED, is_train)
    j = len(NUMBERS)
    X[:, j] = rate_of_rows(_codes(frame[CITY]), y, is_train, fold, cupy)
    for part, period in PERIODS.items():
        angle = getattr(frame[TIME].dt, part).to_cupy().astype("float32") * (2 * cupy.pi / period)
        X[:, j + 1], X[:, j + 2] = cupy.sin(angle), cupy.cos(angle)
        j += 2
    for i, name in enumerate(CATEGORIES, start=j + 1):
        X[:, i] = _codes(frame[name])
    return X


def _codes(column: cudf.Series) -> Array:
    codes: Array = column.astype("category").cat.codes.to_cupy()
    return codes


if __name__ == "__main__":
    main()

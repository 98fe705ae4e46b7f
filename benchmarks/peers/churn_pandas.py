"""Workload of `benchmarks.device.workload` in pandas and XGBoost, as in many notebooks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from benchmarks.churn import CITY, FOLDS, NUMBERS, PERIODS, SKEWED, TARGET, TEST_SHARE, TIME
from benchmarks.device.workload import BOOSTING, CATEGORIES, COLUMNS, FEATURE_TYPES, N_FEATURES, N_TREES, report
from benchmarks.peers.target_rates import rate_of_rows
from gpupipe.bench.clock import StageClock
from gpupipe.typing import Array, HostArray

if TYPE_CHECKING:
    import pandas as pd


def run(files: list[str], clock: StageClock, options: argparse.Namespace) -> float:
    """Read, compute features, train, predict; return the ROC-AUC of the test rows."""
    import numpy as np

    frame, y = read(files, clock)
    with clock("split"):
        rng = np.random.default_rng(0)
        is_train = rng.random(len(y)) >= TEST_SHARE
        fold = rng.integers(0, FOLDS, len(y))
    with clock("features"):
        X = _features(frame, y, is_train, fold)
    return train_and_score(X, y, is_train, clock)


def read(files: list[str], clock: StageClock) -> tuple[pd.DataFrame, Array]:
    """Return the table in Parquet or CSV files, and its target as 0 and 1."""
    import pandas as pd

    columns = [*COLUMNS, TARGET]
    with clock("read"):
        if files[0].endswith(".csv"):
            frames = [pd.read_csv(f, usecols=columns, parse_dates=[TIME], engine="pyarrow") for f in files]
        else:
            frames = [pd.read_parquet(f, columns=columns) for f in files]
        frame = pd.concat(frames, ignore_index=True)
        return frame, (frame[TARGET] == "Yes").to_numpy().astype("float32")


def linear_features(frame: pd.DataFrame, y: Array, clock: StageClock) -> Array:
    """Return the features of a linear model, in which each level of a category is a column."""
    import numpy as np

    rng = np.random.default_rng(0)
    is_train, fold = rng.random(len(y)) >= TEST_SHARE, rng.integers(0, FOLDS, len(y))
    with clock("features"):
        X = _features(frame, y, is_train, fold)
        coded = range(N_FEATURES - len(CATEGORIES), N_FEATURES)
        levels = [np.eye(int(X[:, i].max()) + 1, dtype="float32")[X[:, i].astype("int64")] for i in coded]
        return np.hstack([X[:, : coded.start], *levels])


def _features(frame: pd.DataFrame, y: Array, is_train: HostArray, fold: Array) -> Array:
    import numpy as np

    X = np.empty((len(y), N_FEATURES), "float32", order="F")
    for j, name in enumerate(NUMBERS):
        x = frame[name].fillna(frame[name][is_train].median())
        x = np.log1p(x) if name in SKEWED else x
        X[:, j] = ((x - x[is_train].mean()) / x[is_train].std(ddof=0)).to_numpy()
    j = len(NUMBERS)
    X[:, j] = rate_of_rows(frame[CITY].astype("category").cat.codes.to_numpy(), y, is_train, fold, np)
    for part, period in PERIODS.items():
        angle = getattr(frame[TIME].dt, part).to_numpy() * (2 * np.pi / period)
        X[:, j + 1], X[:, j + 2] = np.sin(angle), np.cos(angle)
        j += 2
    for i, name in enumerate(CATEGORIES, start=j + 1):
        X[:, i] = frame[name].astype("category").cat.codes.to_numpy()
    return X


def train_and_score(X: Array, y: Array, is_train: Array, clock: StageClock) -> float:
    """Train XGBoost on the training rows with all cores, and return the ROC-AUC of the test rows."""
    import xgboost
    from sklearn.metrics import roc_auc_score

    with clock("train"):
        data = xgboost.QuantileDMatrix(X[is_train], y[is_train], feature_types=FEATURE_TYPES, enable_categorical=True)
        booster = xgboost.train(BOOSTING, data, num_boost_round=N_TREES)
    with clock("evaluate"):
        return float(roc_auc_score(y[~is_train], booster.inplace_predict(X[~is_train])))


if __name__ == "__main__":
    report(run)

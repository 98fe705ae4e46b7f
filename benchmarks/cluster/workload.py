"""Features that every implementation computes from the generated customers, and a summary of a matrix.

57 float32 columns: 6 numbers, median-imputed and scaled, 2 of them after a logarithm; 44 levels of 15 categories; the
out-of-fold churn rate of cities and of pairs hashed to 1,024 buckets; the frequency of such pairs; cyclic hour and
weekday. Statistics come from the training rows, 80 % of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.churn import CITY, FOLDS, NUMBERS, PERIODS, SKEWED, SMOOTHING, TARGET, TEST_SHARE, TIME
from gpupipe.typing import Array

CATEGORIES = (
    "gender", "Partner", "Dependents", "PhoneService", "PaperlessBilling", "MultipleLines", "InternetService",
    "OnlineSecurity", "OnlineBackup", "DeviceProtection", "TechSupport", "StreamingTV", "Contract", "PaymentMethod",
    "Region",
)  # fmt: skip
CROSSES = {"city_contract": "Contract", "city_payment": "PaymentMethod"}  # pairs of the city and another column
BUCKETS = 1024
N_FEATURES, OF_BUCKETS = 57, (51, 52)  # columns that depend on a library's hash of pairs

CONFIG = f"""\
name: features
source:
  path: "{{data}}"
  target: {TARGET}
  positive: "Yes"
  drop: [customerID]
  cache: false
split: {{{{test_size: {TEST_SHARE}, stratify: true}}}}
features:
  - impute: {{{{columns: [{", ".join(NUMBERS)}], strategy: median}}}}
  - log1p: [{", ".join(SKEWED)}]
  - standardize: [{", ".join(NUMBERS)}]
  - one_hot: [{", ".join(CATEGORIES)}]
  - cross: {{{{columns: [{CITY}, Contract], as: city_contract, buckets: {BUCKETS}}}}}
  - cross: {{{{columns: [{CITY}, PaymentMethod], as: city_payment, buckets: {BUCKETS}}}}}
  - target_encode: {{{{columns: [{CITY}, city_contract], folds: {FOLDS}, smoothing: {SMOOTHING:.0f}}}}}
  - frequency_encode: [city_payment]
  - cyclic: {{{{columns: [{TIME}], parts: [{", ".join(PERIODS)}]}}}}
"""

Summary = tuple[int, list[float], list[int]]  # number of rows; per column its sum and a hash


def summary(X: Array, first_row: int) -> Summary:
    """Return a summary of rows of a matrix (float32, shape (n, k)) that is additive over partitions."""
    import numpy as np

    place = (2 * np.arange(first_row, first_row + len(X)) + 1).astype("uint64")
    columns = [np.ascontiguousarray(X[:, j]) for j in range(X.shape[1])]
    marks = [int((column.view("uint32").astype("uint64") * place).sum()) for column in columns]
    return len(X), [float(column.sum(dtype="float64")) for column in columns], marks


def document(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Return the number of rows, and the mean and the mark of each column, of a partitioned matrix."""
    n_rows = sum(n for n, _, _ in summaries)
    totals = [sum(parts) for parts in zip(*(sums for _, sums, _ in summaries), strict=True)]
    marks = [sum(parts) % 2**64 for parts in zip(*(marks for _, _, marks in summaries), strict=True)]
    return {"rows": n_rows, "means": [total / n_rows for total in totals], "marks": [f"{mark:016x}" for mark in marks]}

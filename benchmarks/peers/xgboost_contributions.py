"""XGBoost's own Shapley values: ``PYTHON benchmarks/peers/xgboost_contributions.py FOLDER N_ROWS N_THREADS``.

FOLDER has ``model.ubj`` and ``X.npy``. The program needs XGBoost and NumPy only, so that another version of XGBoost can
run it. It prints a JSON object, and writes the values of the first rows to ``xgboost.npy``.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import xgboost

WARM_UP_ROWS = 2_000
KEPT_ROWS = 2_000
N_SINGLE = 200


def peak_mib() -> float:
    """Return the peak memory of this process in MiB."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Time ``pred_contribs``; the conversion to a DMatrix is timed separately."""
    folder = Path(sys.argv[1])
    n_rows = int(sys.argv[2])
    n_threads = int(sys.argv[3])
    booster = xgboost.Booster({"nthread": n_threads}, model_file=folder / "model.ubj")
    X, kinds = np.load(folder / "X.npy")[:n_rows], booster.feature_types

    def matrix(rows: np.ndarray) -> xgboost.DMatrix:
        return xgboost.DMatrix(rows, feature_types=kinds, enable_categorical=True, nthread=n_threads)

    booster.predict(matrix(X[:WARM_UP_ROWS]), pred_contribs=True)
    before = peak_mib()
    started = time.perf_counter()
    rows = matrix(X)
    converted = time.perf_counter()
    values = booster.predict(rows, pred_contribs=True)
    seconds = time.perf_counter() - converted
    peak = peak_mib()
    single = []
    for i in range(N_SINGLE):
        at = time.perf_counter()
        booster.predict(matrix(X[i : i + 1]), pred_contribs=True)
        single.append(time.perf_counter() - at)
    np.save(folder / "xgboost.npy", values[:KEPT_ROWS])
    found = {"version": f"XGBoost {xgboost.__version__}", "seconds": seconds, "convert_seconds": converted - started}
    print(
        json.dumps(
            found
            | {
                "one_row_us": 1e6 * statistics.median(single),
                "before_mib": before,
                "peak_mib": peak,
            }
        )
    )


if __name__ == "__main__":
    main()

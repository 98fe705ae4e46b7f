"""Shares of the peaks of one core that each kind of work reaches on a CPU, measured.

Fitted on 2026-11-28 to the CPU time of 71 runs on generated customers of 5 to 400 thousand rows: two cores of an AMD
EPYC (Zen 4; 29 GB/s copied and 102 GFLOPS in float32 by one core), shared with other work, Python 3.11, scikit-learn
1.9, XGBoost 3.2, LightGBM 4.7, CatBoost 1.2 and PyTorch 2.13. `benchmarks/roofline.py` compares the predictions with
runs on other tables: `benchmarks/results/roofline.md`.

The shares of logistic regression, for its two solvers, and of least squares were set by hand, from matrices of 400 and
800 thousand rows by 30 to 60 columns. LightGBM, CatBoost, extra trees and
networks were measured at two or three sizes of one table only.
"""

from __future__ import annotations

from gpupipe.plan.gpu_choice.roofline import Rate

# Seconds of the imports of scikit-learn, XGBoost or LightGBM; PyTorch takes longer.
START = (0.8, 1.4)

RATES: dict[str, Rate] = {
    "read generated": Rate(0.0099, 1.0, start=0.066),
    "read csv": Rate(0.0061, 1.0, start=0.060),
    "read parquet": Rate(0.0119, 1.0, start=0.042),
    "features": Rate(0.103, 1.0, step=3.2e-4, start=0.006),
    "logistic": Rate(0.15, 0.7, start=0.010),
    "least squares": Rate(1.0, 0.35, start=0.010),
    "xgboost": Rate(0.256, 1.0, step=5.25e-4),
    "hist boosting": Rate(0.118, 1.0, step=6.4e-4, start=0.017),
    "lightgbm": Rate(0.150, 1.0, step=3.0e-4),
    "catboost": Rate(0.0204, 1.0, step=6.5e-4),
    "random forest": Rate(1.0, 0.0052, step=2.7e-3),
    "extra trees": Rate(1.0, 0.0013),
    "network": Rate(0.080, 1.0, start=3.8),
    "predict linear": Rate(0.078, 1.0, start=0.001),
    "predict xgboost": Rate(0.139, 1.0, start=0.003),
    "predict hist boosting": Rate(0.043, 1.0, start=0.017),
    "predict lightgbm": Rate(0.0105, 1.0),
    "predict catboost": Rate(0.082, 1.0, start=0.032),
    "predict random forest": Rate(0.065, 1.0, start=0.006),
    "predict extra trees": Rate(0.029, 1.0),
    "predict network": Rate(0.087, 1.0, start=0.008),
    "evaluate": Rate(0.31, 1.0, step=3.2e-5, start=0.001),
}
"""Rate by kind of work. Other work has no prediction: transformers, neighbors, k-means, support vectors, and reading
JSON lines and frames.
"""

PARALLEL = frozenset({
    "features", "logistic", "least squares", "xgboost", "hist boosting", "lightgbm", "catboost", "random forest",
    "extra trees", "network",
})  # fmt: skip
"""Kinds whose libraries use all threads. The others use one, or BLAS on a matrix too narrow for several."""

"""Assumed shares of a GPU's peaks: a low and a high value for each kind of work, and what they lean on.

gpupipe has not been measured on a GPU. Each range spans published measurements of the same library, counted with the
formulas of `gpupipe.plan.gpu_choice.work`, or is an assumption, with the basis "assumed".

- Copies: bandwidthTest reaches 0.74 to 0.75 of the peak bandwidth (T4 239.6 of 320 GB/s, A100 1,158 of 1,555), and
  pinned copies from the host 0.39 to 0.61 of PCIe (T4 9.7 of 16 GB/s, A100 12.3 of 32);
  https://github.com/router-gao/cuda-demo, cuda-samples/02-cuda-bandwidth.md.
- XGBoost, 100 trees of depth 10 on 8 columns of the airline table: 100 thousand rows 0.7 s, 10 million rows 3.7 s
  (A10G, A100), 3.6 s (H100), 5 s (V100), 6 s (L4); https://github.com/szilard/GBM-perf/issues/57.
- XGBoost 2.0.3 on a T4, a million rows of 200 columns, depth 6: 0.0808 s per tree;
  https://dev.to/masudahiroto/xgboost-training-speed-a-comparative-analysis-318n.
- XGBoost 2.1.4 on an unnamed GPU, 400 thousand rows of 30 columns, depth 8: 16.6 ms per tree;
  https://destination-earth.github.io/DestinE-DataLake-Gallery/xgboost-gpu-demo.

The times of XGBoost, counted in bytes, are 0.04 (H100) to 0.28 (L4) of the peak bandwidth, and 0.1 to 1.3 ms per
level.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupipe.plan.gpu_choice.roofline import Rate

# Seconds until the first kernel: imports of cuDF and cuML took 3 s warm and 5 to 14 s cold on a machine without a GPU
# (RAPIDS 26.10). The CUDA context and the first compilation of a kernel are assumed.
START = (3.0, 15.0)
PCIE_LANES_GBS = {3: 16.0, 4: 32.0, 5: 64.0}  # 16 lanes, one direction
PCIE_UNKNOWN = 4  # generation assumed where the data sheet says nothing
PCIE_SHARE = (0.35, 0.8)
ASSUMED = "assumed"


@dataclass(frozen=True)
class RateRange:
    """Range of a rate on a GPU.

    `basis` has the published figures that the range spans, or "assumed".
    """

    slow: Rate
    fast: Rate
    basis: str = ASSUMED


_STREAM = RateRange(Rate(0.35, 0.35, 20e-6, 0.01), Rate(0.8, 0.8, 3e-6, 0.001), "bandwidth of copies")
_PASSES = RateRange(Rate(0.2, 0.1, 500e-6, 0.1), Rate(0.8, 0.6, 50e-6, 0.005))
_PARSE = RateRange(Rate(0.01, 1.0, 0.0, 0.2), Rate(0.15, 1.0, 0.0, 0.02))
_TREES = RateRange(Rate(0.03, 1.0, 1e-3, 0.2), Rate(0.25, 1.0, 1e-4, 0.01))
_LOOKUPS = RateRange(Rate(0.05, 0.1, 1e-3, 0.05), Rate(0.5, 0.5, 1e-5, 0.002))

RATES: dict[str, RateRange] = {
    "read csv": _PARSE,
    "read parquet": _PARSE,
    "read generated": _STREAM,
    "features": RateRange(Rate(0.2, 1.0, 50e-6, 0.05), Rate(0.8, 1.0, 5e-6, 0.005), "bandwidth of copies"),
    "xgboost": RateRange(Rate(0.04, 1.0, 1.3e-3, 0.3), Rate(0.28, 1.0, 1e-4, 0.02), "published times of XGBoost"),
    "random forest": _TREES,
    "logistic": _PASSES,
    "least squares": _PASSES,
    "network": RateRange(Rate(0.1, 0.02, 3e-3, 1.0), Rate(0.6, 0.3, 3e-4, 0.2)),
    "predict xgboost": _LOOKUPS,
    "predict random forest": _LOOKUPS,
    "predict linear": _STREAM,
    "predict network": _PASSES,
    "evaluate": RateRange(Rate(0.05, 1.0, 2e-3, 0.01), Rate(0.4, 1.0, 1e-4, 0.001)),
}

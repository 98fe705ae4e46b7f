"""Evidently's drift of two Parquet tables: ``PYTHON benchmarks/peers/evidently_drift.py REFERENCE CURRENT``.

Needs Evidently 0.7 and pandas 2. It prints the seconds of the report and the columns that drifted.
"""

from __future__ import annotations

import sys
import time

import pandas as pd
from evidently import Report
from evidently.presets import DataDriftPreset


def main() -> None:
    """Compare the tables with Evidently's defaults: for large tables the Wasserstein distance, with a limit of 0.1."""
    reference, current = pd.read_parquet(sys.argv[1]), pd.read_parquet(sys.argv[2])
    started = time.perf_counter()
    found = Report([DataDriftPreset()]).run(current, reference).dict()
    seconds = time.perf_counter() - started
    columns = [each for each in found["metrics"] if "ValueDrift" in each["metric_name"]]
    drifted = [each["config"]["column"] for each in columns if each["value"] >= each["config"]["threshold"]]
    print(f"{seconds:.1f} s, {len(columns)} columns, drifted: {', '.join(drifted) or 'none'}")


if __name__ == "__main__":
    main()

"""
Can I train on more rows than fit in memory?
============================================

Yes: with ``limits: {memory: ...}``, or where the machine has less than a run needs, the rows stay in files and one
partition at a time is in memory. Features and metrics are the same to the last digit.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from gpupipe.datasets.churn import customers

# %%
# A Parquet file of a million customers, written in parts.

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "customers.parquet"
first = customers(100_000, seed=1)
with pq.ParquetWriter(path, first.schema) as writer:
    writer.write_table(first, row_group_size=50_000)
    for seed in range(2, 11):
        writer.write_table(customers(100_000, seed=seed), row_group_size=50_000)
print(f"{path.stat().st_size / 2**20:.0f} MiB on disk, {10 * first.nbytes / 2**20:.0f} MiB as an Arrow table")

# %%
# One configuration, run twice as a command: without a limit, and with one. ``gpupipe plan`` tells in advance what a run
# will hold.

config = Path(folder.name) / "customers.yaml"
config.write_text(
    """
source: {path: customers.parquet, target: Churn, positive: "Yes", drop: customerID}
split: {test_size: 0.2}
features:
  - impute: {columns: "@numeric", indicator: true}
  - standardize: "@numeric"
  - encode: ["@categorical", "!City"]
  - target_encode: City
models:
  - xgboost: {n_estimators: 40, max_depth: 4}
evaluate: {metrics: [roc_auc, log_loss]}
report: {enabled: false}
"""
)


def run(name: str, *options: str) -> dict[str, float]:
    """Run the command, and return its metrics and the peak memory of its process in MiB."""
    output = Path(folder.name) / name
    command = [sys.executable, "-m", "gpupipe", "run", config.name, "--quiet", "--output", output.name, *options]
    code = f"import resource, subprocess; subprocess.run({command!r}, check=True); "
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder.name, capture_output=True, text=True, check=True)
    peak = int(re.findall(r"\d+", done.stdout)[-1]) / 1024
    metrics = json.loads((output / "metrics.json").read_text())["models"]["xgboost"]
    return {"roc_auc": metrics["roc_auc"], "log_loss": metrics["log_loss"], "peak memory (MiB)": peak}


runs = pd.DataFrame({"in memory": run("all"), "limit 500 MiB": run("limited", "--set", "limits.memory=500MiB")}).T
print(runs.to_string(float_format="%.6f"))

# %%

axis = runs["peak memory (MiB)"].plot.barh(figsize=(7, 2.2))
axis.set(xlabel="peak memory of the process (MiB)")
axis.axvline(500, color="0.4", linestyle="--")
axis.figure.set_layout_engine("constrained")
folder.cleanup()

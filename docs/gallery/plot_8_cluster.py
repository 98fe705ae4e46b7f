"""
Does a cluster give me the same features?
=========================================

The same configuration runs on workers of Dask: a ``LocalCluster`` as here, a scheduler by its address, or Dask-CUDA
with a GPU for each worker. Each worker reads, encodes and keeps its own partitions. The features are those of one
machine, bit for bit, whatever the number of workers.
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import gpupipe as gp
from gpupipe.datasets.churn import customers

# %%

SETTINGS = {
    "source": {"generate": "churn", "rows": 60_000, "target": "Churn", "positive": "Yes", "drop": ["customerID"]},
    "split": {"test_size": 0.2},
    "features": [
        {"impute": {"columns": "@numeric", "strategy": "median", "indicator": True}},
        {"standardize": "@numeric"},
        {"encode": ["@categorical", "!City"]},
        {"target_encode": "City"},
    ],
    "models": ["logistic_regression"],
    "evaluate": {"metrics": ["roc_auc", "log_loss"]},
    "report": {"enabled": False},
}
CLUSTER = {"scheduler": "local", "workers": 2, "threads": 1, "memory_limit": "1GiB"}

# %%
# A script that starts workers needs the guard ``if __name__ == "__main__":`` because each worker imports it.

folder = tempfile.TemporaryDirectory()
runs = {}
if __name__ == "__main__":
    for name, cluster in {"one machine": {}, "two workers": {"cluster": CLUSTER}}.items():
        pipe = gp.Pipeline.from_dict({**SETTINGS, **cluster})
        runs[name] = pipe.run(Path(folder.name) / name.replace(" ", "-"), quiet=True)
        print(f"{name}: ROC AUC {runs[name].metrics['roc_auc']!r}")

# %%
# The models agree on new rows to the last bit, since they learned from the same matrix.

if runs:
    scores = [run.model.predict_proba(customers(1000, seed=8)) for run in runs.values()]
    print("equal:", (scores[0] == scores[1]).all())

# %%
# ``timeline.json`` has the seconds of every stage. A table this small is faster on one machine: workers pay off for
# tables that one process reads slowly or cannot hold.

if runs:
    fig, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
    for position, (name, run) in enumerate(runs.items()):
        stages = json.loads((run.path / "timeline.json").read_text())["stages"]
        seconds = {stage["name"]: stage["seconds"] for stage in stages if stage["seconds"] > 0.01}
        axis.barh([f"{stage} " for stage in seconds], seconds.values(), height=0.4 - 0.2 * position, label=name)
    axis.invert_yaxis()
    axis.set(xlabel="seconds")
    axis.legend()
folder.cleanup()

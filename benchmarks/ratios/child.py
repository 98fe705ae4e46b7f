"""Child process that measures one side: ``python -m benchmarks.ratios.child TASK FOLDER --json OUT``.

Only the standard library is imported at the top, because the CPU seconds of imports are measured too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

PASSES = 3  # of the stages, in one process: the first one loads code
BLOCKS = 5  # of calls with single rows, in turn
CALLS, PEER_CALLS = 400, 8


def import_product(folder: Path) -> dict[str, float]:
    """Import gpupipe, with what the first lines of most programs use."""
    gpupipe = import_module("gpupipe")
    for name in ("Pipeline", "load_config", "load_scorer"):
        getattr(gpupipe, name)
    return {"import": time.process_time()}


def import_peer(folder: Path) -> dict[str, float]:
    """Import pandas."""
    import_module("pandas")
    return {"import": time.process_time()}


def stages_of_product(folder: Path) -> dict[str, float]:
    """Read Parquet and compute the features of a linear model."""
    from gpupipe.bench.child import READING
    from gpupipe.bench.clock import StageClock
    from gpupipe.bench.models import choose_model
    from gpupipe.bench.stages import run_stages
    from gpupipe.config import load_config

    for name in READING:
        import_module(name)
    config = load_config(folder / "stages.yaml")
    passes = []
    for _ in range(PASSES):
        clock = StageClock()
        run_stages(config, choose_model(config, None), clock, features_only=True)
        passes.append({"read": clock.cpu["read"], "features": sum(v for k, v in clock.cpu.items() if "features" in k)})
    return least(passes)


def stages_of_peer(folder: Path) -> dict[str, float]:
    """Read Parquet and compute the same features in hand-written pandas."""
    from benchmarks.peers.churn_pandas import linear_features, read
    from gpupipe.bench.clock import StageClock

    passes = []
    for _ in range(PASSES):
        clock = StageClock()
        linear_features(*read(sorted(map(str, folder.glob("stages/*.parquet"))), clock), clock)
        passes.append({name: clock.cpu[name] for name in ("read", "features")})
    return least(passes)


def run_product(folder: Path) -> dict[str, float]:
    """Run gpupipe from a table to an exported logistic regression."""
    from gpupipe import load_config
    from gpupipe.pipeline.run import run_pipeline

    run_pipeline(load_config(folder / "run.yaml"), folder / "run")
    return {"run": time.process_time()}


def run_peer(folder: Path) -> dict[str, float]:
    """Train and save a hand-written pipeline of scikit-learn with the same kinds of features and the same model."""
    import pickle

    import pandas as pd
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import train_test_split

    from benchmarks.peers.single_row_sklearn import LINEAR, pipeline

    frame = pd.read_parquet(folder / "churn.parquet").drop(columns="customerID")
    codes = frame.select_dtypes("category").columns
    frame = frame.astype(dict.fromkeys(codes, "str"))
    y = (frame.pop("Churn") == "Yes").to_numpy()
    X_train, X_test, y_train, y_test = train_test_split(frame, y, test_size=0.2, stratify=y, random_state=0)
    fitted = pipeline("churn", LINEAR, {}).fit(X_train, y_train)
    roc_auc_score(y_test, fitted.predict_proba(X_test)[:, 1])
    (folder / "peer.pkl").write_bytes(pickle.dumps(fitted))
    X_test.head(200).to_pickle(folder / "rows.pkl")
    return {"run": time.process_time()}


def rows(folder: Path) -> dict[str, float]:
    """Predict single rows with both: from dicts of plain values, from those of ``to_dict``, and from frames."""
    import pickle

    import pandas as pd

    from gpupipe import load_model, load_scorer

    frame = pd.read_pickle(folder / "rows.pkl").dropna()
    of_pandas = frame.to_dict("records")
    plain = [{name: _plain(value) for name, value in row.items()} for row in of_pandas]
    frames = [frame.iloc[i : i + 1] for i in range(len(frame))]
    scorer, model = load_scorer(folder / "run"), load_model(folder / "run")
    peer = pickle.loads((folder / "peer.pkl").read_bytes())
    seconds: dict[str, list[float]] = {"row": [], "row of pandas": [], "frame": [], "peer": []}
    for _ in range(BLOCKS):
        seconds["row"].append(_per_call(scorer.predict_proba, plain, CALLS))
        seconds["row of pandas"].append(_per_call(scorer.predict_proba, of_pandas, CALLS))
        seconds["frame"].append(_per_call(model.predict_proba, frames, CALLS // 10))
        seconds["peer"].append(_per_call(peer.predict_proba, frames, PEER_CALLS))
    return {name: median(values) for name, values in seconds.items()}


def _plain(value: Any) -> Any:
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def _per_call(predict: Callable[[Any], Any], given: Sequence[Any], calls: int) -> float:
    start = time.process_time()
    for i in range(calls):
        predict(given[i % len(given)])
    return (time.process_time() - start) / calls


def least(passes: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the least seconds of each measure."""
    return {name: min(each[name] for each in passes) for name in passes[0]}


TASKS = {
    "import": import_product,
    "import-peer": import_peer,
    "stages": stages_of_product,
    "stages-peer": stages_of_peer,
    "run": run_product,
    "run-peer": run_peer,
    "rows": rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one task and write its CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    options.json.write_text(json.dumps(TASKS[options.task](options.folder)), encoding="utf8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

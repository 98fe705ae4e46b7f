"""gpupipe: the configuration that ``gpupipe init`` writes, with a time limit where the models have one.

Option ``models``: ``init`` keeps the leaderboard that `init` wrote; ``best`` trains an ensemble within the limit; other
values replace the list, ``[logistic_regression]`` for instance. Option ``generate``: true adds generated features,
false removes them, and without it the configuration keeps what `init` offers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import yaml

from benchmarks.answers.contenders.exchange import (
    TEST_FILE,
    TRAIN_FILE,
    Answer,
    AnswerTask,
    Clock,
    prediction_frame,
    run_contender,
)

INIT = "init"
BEST = "best"
GENERATE = "generate"
FOLDS = 5
TEST_ROWS, MOST_TEST_SIZE = 200, 0.05
"""Rows that a run without a choice between models is tested on: few, because the exported model lacks them. The folds
of an ensemble are its validation; `split.cv` would divide its time limit among six ensembles."""
PROBABILITY = "probability_"


def solve(task: AnswerTask, folder: Path) -> Answer:
    """Write the configuration, run it, and predict the test rows with the exported model."""
    clock = Clock()
    path = folder / "config.yaml"
    output = folder / "run"
    scored = folder / "scored.parquet"
    _gpupipe(task, "init", str(folder / TRAIN_FILE), "--target", task.target, "-o", str(path), "--force")
    n_rows = pq.read_metadata(folder / TRAIN_FILE).num_rows
    config = adapt_config(yaml.safe_load(path.read_text(encoding="utf8")), task, n_rows)
    path.write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True), encoding="utf8")
    _gpupipe(task, "run", str(path), "--output", str(output), "--json")
    fit_s = clock.lap()
    _gpupipe(task, "predict", str(output), str(folder / TEST_FILE), "-o", str(scored), "--force", "--quiet")
    predictions = _predictions(task, pd.read_parquet(scored))
    return Answer(predictions, fit_s, clock.lap(), _note(output))


def adapt_config(config: dict[str, Any], task: AnswerTask, n_rows: int) -> dict[str, Any]:
    """Return the configuration with the models, features and validation of the task, and without a report."""
    models, generate = task.options.get("models", INIT), task.options.get("generate")
    if models == BEST:
        config["models"] = [{BEST: {"time_limit": f"{task.limit_s:g}s"}}]
    elif models != INIT:
        config["models"] = models
    if generate is not None:
        config["features"] = _with_generated(config["features"]) if generate else _without_generated(config["features"])
    # `init` may drop a column whose values identify a row, which the split needs.
    config["source"]["drop"] = [n for n in config["source"].get("drop", ()) if n not in (task.group, task.time)]
    rows = {"cv": FOLDS} if models == INIT else {"test_size": min(MOST_TEST_SIZE, TEST_ROWS / n_rows)}
    if task.group is not None:
        config["split"] = {"group": task.group, "seed": task.seed, **rows}
    elif task.time is not None:
        config["split"] = {"time": task.time, **rows}
        config["features"] = [{"drop": [task.time]}, *config["features"]]  # no contender has it as a feature
    elif models != INIT:
        config["split"] = {"seed": task.seed, **rows}
    config["seed"] = task.seed
    config["report"] = {"enabled": False}
    metrics = [task.metric, *(name for name in config["evaluate"]["metrics"] if name != task.metric)]
    config["evaluate"] = {**config["evaluate"], "metrics": metrics, "importance": False}
    return config


def _without_generated(features: list[Any]) -> list[Any]:
    return [step for step in features if _op_name(step) != GENERATE]


def _with_generated(features: list[Any]) -> list[Any]:
    """Return the features with `generate` where `init` proposes it: before the encoding of all columns."""
    features = _without_generated(features)
    at = next((i for i, step in enumerate(features) if _op_name(step) == "auto"), len(features))
    return [*features[:at], GENERATE, *features[at:]]


def _op_name(step: Any) -> str:
    return step if isinstance(step, str) else str(next(iter(step)))


def _gpupipe(task: AnswerTask, *words: str) -> None:
    threads = {name: str(task.cores) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-m", "gpupipe", *words],
        env=dict(os.environ) | threads,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        message = f"gpupipe {words[0]} ended with exit code {done.returncode}"
        raise RuntimeError(message)


def _predictions(task: AnswerTask, scored: pd.DataFrame) -> pd.DataFrame:
    if task.task == "regression":
        return prediction_frame(scored["prediction"].to_numpy())
    found = scored[[name for name in map(str, scored) if name.startswith(PROBABILITY)]]
    return found.rename(columns=lambda name: name.removeprefix(PROBABILITY)).astype("float64")


def _note(output: Path) -> str:
    document = yaml.safe_load((output / "run.json").read_text(encoding="utf8"))
    return str(document.get("best", ""))


if __name__ == "__main__":
    run_contender(
        solve, ("gpupipe", "scikit-learn", "xgboost", "xgboost-cpu", "lightgbm", "catboost", "torch", "pandas")
    )

"""Files that the runner and a contender exchange.

The runner writes ``train.parquet`` with the target, ``test.parquet`` without it, and ``task.json``. The contender
writes ``predictions.parquet``, with a column of probabilities per class or one column ``prediction``, and
``report.json`` with seconds, versions and a note. True values of the test rows stay with the runner.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

TASK_FILE = "task.json"
TRAIN_FILE = "train.parquet"
TEST_FILE = "test.parquet"
PREDICTIONS_FILE, REPORT_FILE = "predictions.parquet", "report.json"
PREDICTION = "prediction"


@dataclass(frozen=True)
class AnswerTask:
    """Description of the task that a contender receives.

    Attributes
    ----------
    target, task, metric : str
        The column to predict; binary, multiclass or regression; the metric that will rank the predictions.
    limit_s : float
        Time limit of the training, in seconds, for tools that have one.
    cores : int
        Number of cores to use.
    group, time : str, optional
        Column of both files by which the test rows were split off; no feature.
    options : dict
        Settings of the contender.
    """

    target: str
    task: str
    metric: str
    limit_s: float
    cores: int
    seed: int = 0
    group: str | None = None
    time: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the task file."""
        (folder / TASK_FILE).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf8")


@dataclass
class Answer:
    """Predictions of a contender.

    Attributes
    ----------
    predictions : pandas.DataFrame
        A row per test row, in the order of the file; see the module.
    fit_s, predict_s : float
        Wall seconds of training, data loading included, and of predicting the test rows.
    note : str
        What was trained: the models chosen, for instance.
    """

    predictions: pd.DataFrame
    fit_s: float
    predict_s: float
    note: str = ""


class Clock:
    """Wall seconds since the last call of `lap`, or since the creation."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        before, self._last = self._last, time.perf_counter()
        return self._last - before


Solver = Callable[[AnswerTask, Path], Answer]


def split_columns(task: AnswerTask, folder: Path) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame, pd.DataFrame]:
    """Return the features and the target to learn from, the features to predict from, and the full training table."""
    import pandas as pd

    train, test = pd.read_parquet(folder / TRAIN_FILE), pd.read_parquet(folder / TEST_FILE)
    special = [name for name in (task.group, task.time) if name is not None]
    return train.drop(columns=[task.target, *special]), train[task.target], test.drop(columns=special), train


def probability_frame(probabilities: Any, classes: Any) -> pd.DataFrame:
    """Return class probabilities of shape (rows, classes) as a frame with a column per class."""
    import pandas as pd

    return pd.DataFrame(probabilities, columns=[str(name) for name in classes]).astype("float64")


def prediction_frame(values: Any) -> pd.DataFrame:
    """Return predicted numbers as a frame with one column."""
    import pandas as pd

    return pd.DataFrame({PREDICTION: values}).astype("float64")


def run_contender(solve: Solver, packages: tuple[str, ...]) -> None:
    """Solve the task of the folder on the command line and write the predictions and the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, help="folder with task.json, train.parquet and test.parquet")
    folder = parser.parse_args().folder.resolve()
    task = AnswerTask(**json.loads((folder / TASK_FILE).read_text(encoding="utf8")))
    answer = solve(task, folder)
    answer.predictions.to_parquet(folder / PREDICTIONS_FILE, index=False)
    report = {
        "fit_s": round(answer.fit_s, 3),
        "predict_s": round(answer.predict_s, 3),
        "versions": _versions(packages),
        "note": answer.note,
    }
    (folder / REPORT_FILE).write_text(json.dumps(report, indent=1) + "\n", encoding="utf8")


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of the installed ones: xgboost, for instance, is also published under other names."""
    found = {}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found

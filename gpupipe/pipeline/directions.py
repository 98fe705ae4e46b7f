"""Direction of importances: how predictions vary with the values of an input column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpupipe.pipeline.explanation import ExplainedRows
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.leaderboard import LeaderboardResult
from gpupipe.report.data import Direction
from gpupipe.table.schema import FIRST_LEVEL, NAT, Column
from gpupipe.typing import Array

MIN_CORRELATION = 0.1  # weaker ones say neither up nor down
MIN_ROWS = 20  # of a level, to compare its mean prediction with those of others


def measure_directions(
    job: Job, outcome: LeaderboardResult, explained: ExplainedRows | None, columns: Sequence[str]
) -> dict[str, Direction]:
    """Return the direction of each of `columns` that has one, for binary classification and regression.

    Predictions of the explained rows are compared with the column as it was read: numbers and times by rank
    correlation, levels by their mean prediction. Columns of further tables, texts and columns of many rare levels have
    no direction.
    """
    if explained is None or job.goal.task not in ("binary", "regression"):
        return {}
    trained, backend = outcome.explained.trained, job.backend
    prediction = trained.model.predict(backend.to_device(explained.X))
    output = backend.to_host(outcome.explained_decision.apply(prediction, backend).output).astype(np.float64)
    schema = job.table.schema
    directions: dict[str, Direction] = {}
    for name in columns:
        if name not in schema or schema[name].kind == "text":
            continue
        values = job.table.values_at(name, explained.rows, backend)
        found = direction_of(schema[name], values, output)
        if found is not None:
            directions[name] = found
    return directions


def direction_of(column: Column, values: Array, output: Array) -> Direction | None:
    """Return the direction of one column.

    Parameters
    ----------
    column : Column
    values : array, shape (n,)
        Encoded values.
    output : array of float64, shape (n,)
        Predictions of the same rows.

    Examples
    --------
    >>> column = Column("age", "numeric", "int64", storage="float64")
    >>> direction_of(column, np.array([20.0, 30.0, 40.0, np.nan]), np.array([0.9, 0.5, 0.2, 0.3]))
    Direction(correlation=-1.0, highest='', lowest='')
    """
    import pandas as pd

    predictions = pd.Series(output)
    if column.levels is not None:
        means = _level_means(column.levels, pd.Series(values), predictions)
        if len(means) < 2 or min(means.values()) == max(means.values()):
            return None
        return Direction(highest=max(means, key=means.__getitem__), lowest=min(means, key=means.__getitem__))
    if column.hash_of is not None:
        return None
    numbers = pd.Series(values).astype("float64")
    numbers = numbers.where(values != NAT) if column.kind == "datetime" else numbers
    is_known = numbers.notna()
    if numbers[is_known].nunique() < 2 or predictions[is_known].nunique() < 2:
        return None
    correlation = float(numbers[is_known].rank().corr(predictions[is_known].rank()))  # Spearman's, ties included
    return Direction(correlation=correlation if abs(correlation) >= MIN_CORRELATION else 0.0)


def _level_means(levels: Sequence[str], codes: Any, predictions: Any) -> Mapping[str, float]:
    """Return the mean prediction of each level with at least `MIN_ROWS` rows."""
    groups = predictions.groupby(codes).agg(["mean", "size"])
    groups = groups[(groups["size"] >= MIN_ROWS) & (groups.index >= FIRST_LEVEL)]
    return {levels[int(code) - FIRST_LEVEL]: float(mean) for code, mean in groups["mean"].items()}

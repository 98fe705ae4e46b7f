"""Predictions of test rows, and the difference of the metrics of two runs on the same rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.metrics import METRICS, join_scores
from gpupipe.metrics.bootstrap import PAIRED_RESAMPLES, Z_95, paired_changes, sampling_errors
from gpupipe.metrics.predictions import ClassPredictions, Predictions, QuantilePredictions, ValuePredictions
from gpupipe.model_parts.goal import Goal, label_text, output_of_target
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    import pandas as pd

    from gpupipe.metrics.settings import Costs

TOLERANCE = 1e-5  # relative, between a recorded metric and that of predictions.parquet


class TestRows:
    """Targets and predictions of a run, from the columns of predictions.parquet.

    `group` is the column of the groups that it was split by, `costs` are those of the metric ``cost``.
    """

    __test__ = False  # pytest takes the name for that of a test

    def __init__(
        self, predictions: pd.DataFrame, goal: Goal, group: str | None = None, costs: Costs | None = None
    ) -> None:
        self.frame = predictions.sort_values("row", kind="stable", ignore_index=True)
        self.goal, self.costs = goal, costs
        self.rows: HostArray = self.frame["row"].to_numpy()
        self.folds: HostArray = self.frame["fold"].to_numpy() if "fold" in self.frame else np.zeros(len(self.frame))
        self.groups: HostArray | None = None
        if group in self.frame:
            self.groups = np.unique(self.frame[group].astype(str), return_inverse=True)[1]
        self._parts = [self._part(own) for own in goal.each]

    def obstacle(self, other: TestRows) -> str:
        """Return why two runs are not paired; "" if their test rows and targets are the same."""
        if (self.goal.task, self.goal.names) != (other.goal.task, other.goal.names):
            return "the tasks or the targets differ"
        if [own.labels for own in self.goal.each] != [own.labels for own in other.goal.each]:
            return "the classes differ"
        if not np.array_equal(self.rows, other.rows):
            n_shared = len(np.intersect1d(self.rows, other.rows))
            return f"the test rows differ: {len(self.rows):,} and {len(other.rows):,}, of which {n_shared:,} are shared"
        if not np.array_equal(self.folds, other.folds):
            return "the folds differ"
        if not all(np.array_equal(one.y_true, two.y_true) for one, two in zip(self._parts, other._parts, strict=True)):
            return "the targets of the test rows differ, so the rows are others"
        return ""

    def score(self, names: list[str], rows: HostArray) -> dict[str, float]:
        """Return metrics of some rows: with folds, the mean over the folds."""
        folds = self.folds[rows]
        each = [self._score(names, rows[folds == fold]) for fold in np.unique(folds)]
        return {name: math.fsum(values[name] for values in each) / len(each) for name in each[0]}

    def _score(self, names: list[str], rows: HostArray) -> dict[str, float]:
        chosen = [_take(part, rows) for part in self._parts]
        scores = [{name: METRICS.get(name).function(part) for name in names} for part in chosen]
        return join_scores(self.goal.names, scores) if self.goal.targets else scores[0]

    @property
    def strata(self) -> HostArray:
        """Code of the fold and the classes of each row: samples have as many rows of each."""
        keys = [self.folds, *(part.y_true for part in self._parts if self.goal.has_classes)]
        codes: HostArray = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)[1].ravel()
        return codes

    def _part(self, goal: Goal) -> Any:
        """Return targets and predictions of a target as metrics take them."""

        def column(name: str) -> Any:
            return self.frame[output_of_target(name, goal) if self.goal.targets else name]

        backend = CpuBackend()
        if goal.task in CLASSIFICATION:
            codes = {text: code for code, text in enumerate(goal.label_texts)}
            texts = (column(name).map(label_text) for name in ("target", "prediction"))
            y, label = (values.map(codes).to_numpy(np.int64) for values in texts)
            p = np.stack([column(f"probability_{text}") for text in goal.label_texts], axis=1).astype(np.float64)
            p = p / p.sum(axis=1, keepdims=True)
            p = p[:, 1] if goal.task == "binary" else p
            return ClassPredictions(y, p, label, goal.n_classes, backend, self.costs)
        y = column("target").to_numpy(np.float64)
        if goal.quantiles:
            return QuantilePredictions.of(y, self.frame[list(goal.quantile_names)].to_numpy(), goal.quantiles, backend)
        return ValuePredictions.of(y, column("prediction").to_numpy(), backend)


def _take(part: Any, rows: HostArray) -> Predictions:
    """Return some rows of targets and predictions."""
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    found: Predictions = replace(
        part, **{name: value[rows] for name, value in values.items() if isinstance(value, np.ndarray)}
    )
    return found


def paired_differences(
    first: TestRows, second: TestRows, *recorded: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Return the difference of each metric of two runs on the same rows, with the ends of its 95% interval.

    The interval is the normal one of a paired bootstrap: both runs are scored on the same 200 samples of their test
    rows, drawn with replacement within the folds and the classes, or as whole groups within the folds. It shows how
    much the difference depends on the test rows, not on the training rows.

    A metric is skipped if the predictions do not reproduce the `recorded` values, as with row weights.
    """
    names = [name for name in dict.fromkeys(each.partition("[")[0] for each in recorded[0]) if name in recorded[1]]
    is_known = {name: name in METRICS and (name != "cost" or first.costs == second.costs) for name in names}
    names = [name for name in names if is_known[name]]
    if not names:
        return {}
    strata = first.strata if first.groups is None else first.folds
    changes = paired_changes(partial(first.score, names), partial(second.score, names), strata, first.groups)
    found = {}
    for name, change in changes.items():
        pairs = [(now, then.get(name, math.nan)) for now, then in zip((change.old, change.new), recorded, strict=True)]
        if all(math.isclose(now, then, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for now, then in pairs):
            found[name] = {"difference": change.difference, "low": change.low, "high": change.high}
    return found


def metric_intervals(tested: TestRows, recorded: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return the ends of the 95% interval of each metric of a run: the normal one of the bootstrap.

    The samples are those of `paired_differences`. A metric is skipped if the predictions do not reproduce its
    `recorded` value, as with row weights.
    """
    names = [name for name in recorded if name in METRICS and (name != "cost" or tested.costs is not None)]
    every = tested.score(names, np.arange(len(tested.rows))) if names else {}
    known = {
        name: value
        for name, value in every.items()
        if math.isclose(value, recorded.get(name, math.nan), rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    }
    strata = tested.strata if tested.groups is None else tested.folds
    score = partial(tested.score, names)
    errors = sampling_errors(score, known, strata, tested.groups, n_resamples=PAIRED_RESAMPLES) if known else {}
    margins = {name: Z_95 * float(np.nanstd(each)) for name, each in errors.items() if not np.isnan(each).all()}
    return {name: (known[name] - margin, known[name] + margin) for name, margin in margins.items()}

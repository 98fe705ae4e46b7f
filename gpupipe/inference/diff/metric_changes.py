"""Metrics of two models on the same labelled rows, and on slices of them, with paired intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gpupipe.errors import GpupipeError
from gpupipe.inference.diff.resampled_units import RecordedSplit, ResampledUnits
from gpupipe.inference.drift.label_metrics import LabelledRows, MetricSettings, is_measurable, labelled_rows
from gpupipe.inference.drift.periods import PeriodColumn
from gpupipe.metrics import SliceColumn
from gpupipe.metrics.bootstrap import FEWEST_ROWS, PAIRED_RESAMPLES, MetricChange, class_strata, paired_changes
from gpupipe.model_parts.slice_levels import number_levels, stored_levels
from gpupipe.models import Prediction
from gpupipe.names import count_noun
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.inference.model import Model

SLICE_RESAMPLES, MOST_RESAMPLED = 50, 2_000  # samples, and rows of a slice


@dataclass(frozen=True)
class SliceChanges:
    """Rows that share a value of a column, or a bin of its values; `level` is None where the value is missing."""

    column: str
    level: str | None
    n_rows: int
    n_flipped: int
    metrics: Mapping[str, MetricChange] = field(default_factory=dict)


def label_pair(
    models: tuple[Model, Model], predicted: tuple[Prediction, Prediction], columns: pa.Table, notes: list[str]
) -> tuple[LabelledRows, LabelledRows] | None:
    """Return the labelled rows of both models, which have the same classes; None if the table lacks a target."""
    names = list(models[1].goal.names)
    if not set(names) <= set(columns.column_names):
        return None
    old, new = (
        labelled_rows(columns.select(names), each, model.goal) for model, each in zip(models, predicted, strict=True)
    )
    if new.n_unknown:
        unknown = count_noun(new.n_unknown, "row", "has a label", "have a label")
        notes.append(f"{unknown} that is not one of the models: not counted in any metric")
    return (old, new) if len(new.y) else None


@dataclass(frozen=True)
class PairedMetrics:
    """Metrics of two models on the rows whose target is known."""

    models: tuple[Model, Model]
    rows: tuple[LabelledRows, LabelledRows]
    split: RecordedSplit
    units: ResampledUnits

    @property
    def names(self) -> list[str]:
        """The metrics that the runs recorded, and that labels suffice for; with several targets, without theirs."""
        recorded = {**self.models[1].manifest["metrics"], **self.models[0].manifest["metrics"]}
        names = dict.fromkeys(name.partition("[")[0] for name in recorded)
        if self.split.costs is not None:
            names["cost"] = None
        return [name for name in names if is_measurable(name, self.models[1].goal, self.split.costs)]

    def of_all(self) -> dict[str, MetricChange]:
        """Return the change of each metric, and of that of each target."""
        return self._changes(np.arange(len(self.rows[1].y)), PAIRED_RESAMPLES, 5 * MOST_RESAMPLED)

    def of_rows(self, numbers: HostArray) -> dict[str, MetricChange]:
        """Return the change of each metric on the labelled ones of the table's rows with these numbers, int64."""
        places = np.cumsum(self.rows[1].known) - 1
        return self._changes(places[numbers[self.rows[1].known[numbers]]], SLICE_RESAMPLES, MOST_RESAMPLED)

    def _changes(self, rows: HostArray, n_resamples: int, most_rows: int) -> dict[str, MetricChange]:
        if not len(rows) or not self.names:
            return {}
        each = [self._score(model, own, rows) for model, own in zip(self.models, self.rows, strict=True)]
        codes = None if self.units.codes is None else np.unique(self.units.codes[rows], return_inverse=True)[1]
        if len(rows) < FEWEST_ROWS or (codes is not None and codes.max() < 1):
            old, new = (score(np.arange(len(rows))) for score in each)
            return {name: MetricChange(value, new[name], new[name] - value) for name, value in old.items()}
        y = np.asarray(self.rows[1].y)[rows]
        strata = class_strata(y, self.models[1].goal.has_classes and codes is None)
        return paired_changes(each[0], each[1], strata, codes, n_resamples=n_resamples, most_rows=most_rows)

    def _score(self, model: Model, own: LabelledRows, rows: HostArray) -> Callable[[HostArray], Mapping[str, float]]:
        score = MetricSettings(self.names, model.goal, model.decision, model.backend, self.split.costs).scorer(own)

        def of_places(places: HostArray) -> Mapping[str, float]:
            try:
                return score(rows[places])
            except GpupipeError:  # such as a metric of a plug-in that needs rows of two classes
                return dict.fromkeys(self.names, math.nan)

        return of_places


def slice_changes(
    columns: pa.Table, name: str, flipped: HostArray, metrics: PairedMetrics | None, model: Model
) -> list[SliceChanges]:
    """Return the slices of all rows by a column; `metrics` is None without labels."""
    own = SliceColumn(column=name)
    known = next((column for column in model.features.input_schema if column.name == name), None)
    if known is not None and known.kind == "datetime":  # a text in CSV files
        codes, levels = number_levels(PeriodColumn("day", known).times(columns), own)
    else:
        codes, levels = stored_levels(columns.column(name), own)
    named: Sequence[tuple[int, str | None]] = [*enumerate(levels), *([(-1, None)] if (codes < 0).any() else [])]
    found = []
    for code, level in named:
        rows = np.flatnonzero(codes == code)
        changes = {} if metrics is None else metrics.of_rows(rows)
        found.append(SliceChanges(name, level, len(rows), int(flipped[rows].sum()), changes))
    return found

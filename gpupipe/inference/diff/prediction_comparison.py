"""`PredictionComparison`: metrics, with paired intervals, and decisions of two models on the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpupipe.errors import ConfigError, DataError, GpupipeError
from gpupipe.inference.diff.decision_changes import DecisionChanges, RowMoves, decision_changes
from gpupipe.inference.diff.resampled_units import RecordedSplit, ResampledUnits, resampled_units
from gpupipe.inference.diff.shared_table import SharedTable
from gpupipe.inference.drift.label_metrics import LabelledRows, MetricSettings, is_measurable, labelled_rows
from gpupipe.inference.drift.periods import PeriodColumn
from gpupipe.metrics import SliceColumn
from gpupipe.metrics.bootstrap import FEWEST_ROWS, PAIRED_RESAMPLES, MetricChange, class_strata, paired_changes
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.slice_levels import number_levels, stored_levels
from gpupipe.models import Prediction
from gpupipe.names import count_noun
from gpupipe.tasks import CLASSIFICATION
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.inference.model import Model

SLICE_RESAMPLES, MOST_RESAMPLED = 50, 2_000  # samples, and rows of a slice


@dataclass(frozen=True, kw_only=True)
class PredictionComparison:
    """Metrics and decisions of two models on the same rows, as returned by `compare_predictions`.

    Attributes
    ----------
    n_rows, n_labelled, n_flipped : int
        Rows; those with a known target; those whose decision differs for any target.
    metrics : dict of str to MetricChange
        ``old``, ``new``, ``difference`` (new minus old), ``low`` and ``high``, the ends of its 95% interval. Empty
        without labels.
    units : str
        What the bootstrap draws: ``"rows"``, ``"groups of COLUMN"`` or ``"days of COLUMN"``.
    decisions : tuple of DecisionChanges
        One for each target.
    slices : tuple of SliceChanges
    notes : tuple of str
    """

    n_rows: int
    n_labelled: int = 0
    n_flipped: int = 0
    metrics: Mapping[str, MetricChange] = field(default_factory=dict)
    units: str = "rows"
    decisions: tuple[DecisionChanges, ...] = ()
    slices: tuple[SliceChanges, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def flipped_share(self) -> float:
        """Share of the rows whose decision differs."""
        return self.n_flipped / max(1, self.n_rows)


@dataclass(frozen=True)
class ComparedRows:
    """A comparison with the moves of each row for each target, and the identifiers that both models would copy."""

    comparison: PredictionComparison
    moves: tuple[RowMoves, ...]
    ids: pa.Table


def obstacle(old: Goal, new: Goal) -> str:
    """Return why the predictions of two models are not comparable; ``""`` if they are."""
    if not new.names or not old.names:
        return f"predictions: the model has the task {(old if not old.names else new).task}, without a target"
    if old.names != new.names:
        return f"predictions: the targets differ: {', '.join(old.names)} and {', '.join(new.names)}"
    kinds = [[own.task in CLASSIFICATION or own.task for own in goal.each] for goal in (old, new)]
    if kinds[0] != kinds[1]:
        return f"predictions: the tasks differ: {old.task} and {new.task}"
    if old.quantiles != new.quantiles:
        return "predictions: the quantiles differ"
    return ""


def has_equal_classes(old: Goal, new: Goal) -> bool:
    """Return whether two models have the same classes in the same order, for each target."""
    return [own.labels for own in old.each] == [own.labels for own in new.each]


def compare_predictions(
    old: Model,
    new: Model,
    data: Any,
    *,
    by: str | Sequence[str] = (),
    group: str | None = None,
    moved: float | None = None,
    tables: Mapping[str, Any] | None = None,
    as_of: str | date | datetime | None = None,
) -> PredictionComparison:
    """Compare the metrics and decisions of two models on the same rows.

    Intervals are those of a paired bootstrap with 200 samples, drawn within the classes (Efron and Tibshirani, "An
    Introduction to the Bootstrap", 1993); of more than 10,000 rows, 10,000 are drawn. If the run of the new model was
    split by groups or by time, whole groups or days are drawn, because their rows are not independent.

    Parameters
    ----------
    old, new : Model
        With the same target; families and features may differ.
    data, by, moved, tables, as_of
        As in `gpupipe.diff`. The rules of the models are not enforced.
    group : str, optional
        Column of the groups that the bootstrap draws, instead of those of the split.

    Returns
    -------
    PredictionComparison

    Raises
    ------
    ConfigError
        If the targets or the tasks of the models differ.
    SchemaError, DataError
        If `data` cannot be read or lacks a column, or if the models read different numbers of rows.
    """
    if why := obstacle(old.goal, new.goal):
        raise ConfigError(f"cannot compare {why}", fix="compare models with the same task and target")
    return compare_rows(old, new, SharedTable.of(data, tables, as_of), by, group, moved).comparison


def compare_rows(
    old: Model, new: Model, table: SharedTable, by: str | Sequence[str], group: str | None, moved: float | None
) -> ComparedRows:
    """Return the comparison of two models whose predictions are comparable; see `compare_predictions`."""
    by = (by,) if isinstance(by, str) else by
    split = RecordedSplit.of(new)
    if group is not None:
        split = replace(split, group=group)
    ids = new.manifest["reading"].get("id", ())
    names = dict.fromkeys([*new.goal.names, *by, *filter(None, (split.group, split.time)), *ids])
    after, columns = table.predict(new, tuple(names), (*by, *([group] if group else [])))
    before, _ = table.predict(old)
    if len(before.output) != len(after.output):
        what = f"the old model reads {len(before.output):,} rows and the new one {len(after.output):,}"
        raise DataError(
            what, where=table.label, fix="state the reader options that differ: --source csv.bad_rows=error"
        )
    each = list(decision_changes(old, new, (before, after), moved))
    flipped = np.logical_or.reduce([moves.flipped for _, moves in each])
    notes = list(dict.fromkeys([*old.backend.take_notes(), *new.backend.take_notes()]))
    metrics = None
    units = ResampledUnits(None, "rows")
    if has_equal_classes(old.goal, new.goal):
        rows = label_pair((old, new), (before, after), columns, notes)
        if rows is not None:
            units = resampled_units(split, columns, np.flatnonzero(rows[1].known), new)
            metrics = PairedMetrics((old, new), rows, split, units)
    slices: list[SliceChanges] = []
    for name in by:
        slices += slice_changes(columns, name, flipped, metrics, new)
    comparison = PredictionComparison(
        n_rows=len(flipped),
        n_labelled=0 if metrics is None else len(metrics.rows[1].y),
        n_flipped=int(flipped.sum()),
        metrics={} if metrics is None else metrics.of_all(),
        units=units.name,
        decisions=tuple(changes for changes, _ in each),
        slices=tuple(slices),
        notes=tuple(notes),
    )
    own = columns.select([name for name in ids if name in columns.column_names])
    return ComparedRows(comparison, tuple(moves for _, moves in each), own)


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

"""`PredictionComparison`: metrics and decisions of two models on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpupipe.errors import ConfigError, DataError
from gpupipe.inference.diff.decision_changes import DecisionChanges, RowMoves, decision_changes
from gpupipe.inference.diff.metric_changes import PairedMetrics, SliceChanges, label_pair, slice_changes
from gpupipe.inference.diff.resampled_units import RecordedSplit, ResampledUnits, resampled_units
from gpupipe.inference.diff.shared_table import SharedTable
from gpupipe.metrics.bootstrap import MetricChange
from gpupipe.model_parts.goal import Goal
from gpupipe.tasks import CLASSIFICATION

if TYPE_CHECKING:
    from gpupipe.inference.model import Model


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

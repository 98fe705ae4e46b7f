"""Report on scanned rows: each column and score, each period, and the metrics of labelled rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.inference.drift.cell_counter import CellCounter
from gpupipe.inference.drift.column_drift import ColumnDrift, MetricDrift, PeriodDrift
from gpupipe.inference.drift.detection import (
    NewCounter,
    PredictRows,
    ScannedRows,
    input_columns,
    predict_sample,
    scan_rows,
)
from gpupipe.inference.drift.label_metrics import MetricSettings, is_measurable, is_worse, labelled_rows
from gpupipe.inference.drift.periods import NO_PERIOD, PeriodColumn, period_name
from gpupipe.inference.drift.reference import DriftColumn, DriftReference
from gpupipe.inference.drift.report import DriftReport, ReferenceModel
from gpupipe.inference.drift.scores import count_scores, score_columns
from gpupipe.inference.drift.verdict import (
    FAMILY_LEVEL,
    Verdict,
    compare_columns,
    drifted_since,
    overall_verdict,
    worst_first,
)
from gpupipe.inference.drift.weights import EQUAL_WEIGHTS, importance_weights
from gpupipe.inference.prediction.prediction_table import prediction_table
from gpupipe.model_parts.part_checks import read_importances
from gpupipe.models import Prediction
from gpupipe.names import count_noun
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.inference.interface import LoadedModel

Counts = Mapping[str, Array]


def detect_drift(
    model: LoadedModel,
    reference: DriftReference,
    predict: PredictRows,
    data: Any,
    by: str | None,
    tables: Mapping[str, Any] | None,
    as_of: Any,
    counter: NewCounter | None = None,
) -> DriftReport:
    """Return the report on a table; see `gpupipe.Model.drift`.

    `predict` and `counter` compute in this process (`counter`: None), or in that of an untrusted model.
    """
    scanned = scan_rows(model, reference, data, by, tables, as_of, counter)
    # Probabilities, edges and metrics of a forged model have valid types, and any values.
    with refuse_failures("the rows cannot be compared with the training rows of the model", str(model.folder)):
        return compare(model, reference, scanned, predict)


def compare(model: LoadedModel, reference: DriftReference, scanned: ScannedRows, predict: PredictRows) -> DriftReport:
    """Return the report on scanned rows, some of which `predict` predicts."""
    notes = list(scanned.notes)
    counter = CellCounter(input_columns(reference, model), model.backend.host, 0)
    weights = importance_weights(model.manifest)
    if weights is None:
        notes.append(EQUAL_WEIGHTS)
    by = scanned.by
    if by is not None:
        weights = {column.name: 1.0 for column in reference.columns} if weights is None else dict(weights)
        weights[by.column.name] = 0.0  # it moves from period to period
    total = scanned.counts.total
    columns = compare_columns(reference.columns, counter.by_column(total.cells), weights)
    predicted = predict_sample(model, scanned, predict)
    table = score_columns(prediction_table(predicted, model.goal, model.decision), model.goal)
    scores = compare_columns(reference.scores, _score_counts(reference.scores, table))
    verdict = overall_verdict(columns, scores)
    n_scored = table.num_rows
    metrics, n_labelled = _metrics(model, reference, scanned, predicted, notes)
    periods: list[PeriodDrift] = []
    if by is not None:
        own = _by_period(reference, scanned, counter, table, weights)
        columns = [_with_periods(each, own, by) for each in columns]
        scores = [_with_periods(each, own, by) for each in scores]
        periods = [
            PeriodDrift(period_name(number, by.unit), n_rows, found.weighted_psi, found.severity)
            for number, (n_rows, _, found) in own.items()
        ]
        if NO_PERIOD in scanned.counts.periods:
            rows = count_noun(scanned.counts.periods[NO_PERIOD].n_rows, "row", "has no time", "have no time")
            notes.append(f"{rows}: not counted in any period")
    return DriftReport(
        severity=verdict.severity,
        weighted_psi=verdict.weighted_psi,
        n_rows=total.n_rows,
        n_scored=n_scored,
        n_labelled=n_labelled,
        columns=tuple(worst_first(columns)),
        scores=tuple(worst_first(scores)),
        metrics=tuple(metrics),
        unit="" if by is None else by.unit,
        periods=tuple(periods),
        since=drifted_since(periods),
        has_importances=read_importances(model.manifest.get("importances")) is not None,
        notes=tuple(notes),
        model=identify(model),
    )


def identify(model: LoadedModel) -> ReferenceModel:
    """Return the names, times and hash by which reports identify a model."""
    manifest = model.manifest
    return ReferenceModel(
        name=str(manifest.get("name", "")),
        estimator=str(manifest.get("model", {}).get("name", "")),
        target=", ".join(model.goal.names),
        created=str(manifest.get("created", "")),
        gpupipe=str(manifest.get("gpupipe", "")),
        sha256=str(manifest.get("manifest_sha256", "")),
    )


def _score_counts(references: Sequence[DriftColumn], table: pa.Table) -> dict[str, Array]:
    with refuse_failures("drift.json does not match the model", "drift.json"):
        if unknown := [each.name for each in references if each.name not in table.column_names]:
            raise ValueError(f"scores: {unknown[0]!r:.40} is not an output of the model")
        return dict(zip([each.name for each in references], count_scores(references, table), strict=True))


def _metrics(
    model: LoadedModel, reference: DriftReference, scanned: ScannedRows, predicted: Prediction, notes: list[str]
) -> tuple[list[MetricDrift], int]:
    targets = list(model.goal.names)
    if not targets or not all(set(targets).issubset(table.column_names) for table in scanned.sample):
        return [], 0
    each = [table.select(targets) for table in scanned.sample]
    rows = labelled_rows(pa.concat_tables(each, promote_options="permissive"), predicted, model.goal)
    if rows.n_unknown:
        unknown = count_noun(rows.n_unknown, "row", "has", "have")
        notes.append(f"{unknown} a label that is not one of the model: not counted in any metric")
    names = dict.fromkeys(name.partition("[")[0] for name in reference.metrics)
    measurable = [name for name in names if is_measurable(name, model.goal)]
    measured = MetricSettings(measurable, model.goal, model.decision, model.backend).measure(rows)
    found = []
    for name, run in reference.metrics.items():
        if (own := measured.get(name)) is not None:
            worse = is_worse(name, own, len(rows.y), run)
            found.append(MetricDrift(name, run.value, own.value, *own.interval, worse))
    return found, len(rows.y)


PeriodResults = dict[int, tuple[int, dict[str, ColumnDrift], Verdict]]


def _by_period(
    reference: DriftReference,
    scanned: ScannedRows,
    counter: CellCounter,
    table: pa.Table,
    weights: Mapping[str, float] | None,
) -> PeriodResults:
    """Return the number of rows, the columns and the verdict of each period, in order."""
    by = scanned.by
    assert by is not None
    keys = np.concatenate([by.keys(part) for part in scanned.sample])
    found: PeriodResults = {}
    level = FAMILY_LEVEL / len(scanned.counts.periods)  # for all periods together
    for number, counted in sorted(scanned.counts.periods.items()):
        if number == NO_PERIOD:
            continue
        columns = compare_columns(reference.columns, counter.by_column(counted.cells), weights, level)
        rows = table.filter(pa.array(keys == number))
        scores = compare_columns(reference.scores, _score_counts(reference.scores, rows), level=level)
        each = {f"column {c.name}": c for c in columns} | {f"score {c.name}": c for c in scores}
        found[number] = (counted.n_rows, each, overall_verdict(columns, scores))
    return found


def _with_periods(column: ColumnDrift, own: PeriodResults, by: PeriodColumn) -> ColumnDrift:
    """Return the drift of a column with that of each period."""
    periods = []
    for number, (_, each, _) in own.items():
        found = each.get(f"column {column.name}", each.get(f"score {column.name}"))
        if found is not None:
            periods.append(PeriodDrift(period_name(number, by.unit), sum(found.current), found.psi, found.severity))
    return replace(column, periods=tuple(periods), since=drifted_since(periods))

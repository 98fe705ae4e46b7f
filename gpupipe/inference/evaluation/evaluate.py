"""Evaluation of a table: one pass that counts and predicts its rows, then metrics or estimates of each period."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.errors import ConfigError
from gpupipe.inference.drift.cell_counter import CellCounter
from gpupipe.inference.drift.comparison import compare
from gpupipe.inference.drift.detection import (
    NewCounter,
    PredictRows,
    ScannedRows,
    input_columns,
    load_reference,
    scan_rows,
)
from gpupipe.inference.drift.label_metrics import (
    LabelledRows,
    MetricError,
    Metrics,
    MetricSettings,
    is_known,
    is_measurable,
    is_worse,
    target_values,
)
from gpupipe.inference.drift.periods import NO_PERIOD, PeriodColumn, period_name
from gpupipe.inference.drift.reference import UNSEEN_CELL, DriftReference, MetricReference
from gpupipe.inference.drift.report import DriftReport
from gpupipe.inference.drift.sample import EvenSample, join_alike
from gpupipe.inference.drift.weights import importance_weights
from gpupipe.inference.evaluation.estimates import (
    LabelEstimator,
    PeriodEstimate,
    PeriodRows,
    expected_calibration_error,
)
from gpupipe.inference.evaluation.evaluation import EvaluatedMetric, EvaluatedPeriod, Evaluation, Status
from gpupipe.inference.evaluation.held_out import HeldOutRows, read_held_out
from gpupipe.inference.prediction.rows import rows_to_predict
from gpupipe.metrics import SliceColumn
from gpupipe.metrics.settings import Costs
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.slice_levels import stored_levels
from gpupipe.models import Prediction
from gpupipe.report.slices import MetricSlice
from gpupipe.tasks import SUPERVISED
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.inference.interface import LoadedModel
    from gpupipe.inference.model import Model

MOST_VALUES = 20_000_000  # of predictions and slices kept, 160 MiB; of more rows, evenly spaced ones are evaluated
MOST_OUTSIDE = 0.05  # share of the inputs outside of the training rows, weighted by importance
COMPARED_OUTSIDE = 2.0  # times the share in periods with labels
UNDATED = ("rows with a label", "rows without a label")  # periods of an evaluation without a time


@dataclass(frozen=True)
class EvaluatedRows:
    """Columns of the slices, further tables, cut-off and costs of an evaluation."""

    slices: Sequence[str] = ()
    tables: Mapping[str, Any] | None = None
    as_of: Any = None
    costs: Costs | None = None


def read_costs(cost: Mapping[str, Any]) -> Costs:
    """Return costs by name as settings. Raise ConfigError if they are invalid."""
    try:
        return Costs.model_validate(dict(cost))
    except ValidationError as error:
        first = error.errors()[0]
        what = ": ".join([*map(str, first["loc"]), first["msg"].removeprefix("Value error, ")])
        fix = "give false_positive and false_negative, such as false_positive=1 and false_negative=5"
        raise ConfigError(what, where="cost", fix=fix) from None


class RowCollector:
    """Collector of the predictions, targets and slices of rows, chunk by chunk; a `RowObserver` of the scan.

    Rows whose features need other rows are predicted together, at the end.
    """

    def __init__(self, model: LoadedModel, predict: PredictRows, options: EvaluatedRows) -> None:
        self.model, self.predict = replace(model, rules=(), warns=False), predict
        self.options = options
        self.n_rows: Counter[int] = Counter()
        self.n_labelled: Counter[int] = Counter()
        self._template: Prediction | None = None
        self._whole: list[pa.Table] = []
        self._by: PeriodColumn | None = None
        self._kept: EvenSample | None = None

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the slices."""
        return self.options.slices

    def add(self, table: pa.Table, by: PeriodColumn | None) -> None:
        """Predict the rows of a chunk, or keep them until all are read."""
        self._by = by
        if self.model.features.derivation is not None:
            self._whole.append(table)
        elif table.num_rows:
            self._predict(table)

    def _predict(self, table: pa.Table) -> None:
        model, options = self.model, self.options
        rows = rows_to_predict(model, table.select(list(model.inputs)), options.tables, options.as_of)
        predicted = self.predict(rows)[0]
        self._template = self._template or predicted
        output = np.asarray(predicted.output, np.float64).reshape(table.num_rows, -1)
        y: Array = np.full((table.num_rows, len(model.goal.each)), np.nan)
        if set(model.goal.names).issubset(table.column_names):
            y = target_values(table, model.goal)[0]
        known = is_known(y)
        keys = np.where(known, 0, 1) if self._by is None else self._by.keys(table)
        for counter, chosen in ((self.n_rows, keys), (self.n_labelled, keys[known])):
            counter.update(dict(zip(*(each.tolist() for each in np.unique(chosen, return_counts=True)), strict=True)))
        columns = {f"output {i}": pa.array(each) for i, each in enumerate(output.T)}
        columns |= {f"y {i}": pa.array(each) for i, each in enumerate(y.T)}
        columns |= {f"slice {i}": table.column(name) for i, name in enumerate(options.slices)}
        if self._kept is None:
            self._kept = EvenSample(max(1, MOST_VALUES // (len(columns) + 1)))
        self._kept.add(pa.table({"period": pa.array(keys), **columns}))

    def finish(self) -> CollectedRows:
        """Return the collected rows."""
        for table in join_alike(self._whole):
            self._predict(table)
        assert self._kept is not None and self._template is not None  # a scan without rows is an error
        table = pa.concat_tables(self._kept.tables(), promote_options="permissive")
        widths = self._template.output.shape[1:]
        output, y = (_matrix(table, prefix) for prefix in ("output", "y"))
        predicted = self._template.with_arrays(
            dict.fromkeys(self._template.arrays, output.reshape(len(output), *widths))
        )
        slices = {name: table.column(f"slice {i}") for i, name in enumerate(self.options.slices)}
        return CollectedRows(predicted, y, table.column("period").to_numpy(), slices, self._kept.stride)


@dataclass(frozen=True)
class CollectedRows:
    """Every `stride`-th row: calibrated predictions, targets (n, n_targets), number of the period and slice columns."""

    predicted: Prediction
    y: Array
    keys: Array
    slices: Mapping[str, pa.ChunkedArray]
    stride: int

    def take(self, name: str, rows: Array) -> PeriodRows:
        """Return the rows of a mask."""
        return PeriodRows(name, self.predicted.mapped(lambda array: array[rows]), self.y[rows])


def _matrix(table: pa.Table, prefix: str) -> Array:
    names = [name for name in table.column_names if name.startswith(f"{prefix} ")]
    found: Array = np.stack([table.column(name).to_numpy() for name in names], axis=1)
    return found


@dataclass(frozen=True)
class ModelRecord:
    """Records of the run in a model: the reference of drift, and held-out rows; `counter` as in `detect_drift`."""

    reference: DriftReference
    held_out: HeldOutRows | None
    counter: NewCounter | None = None


def load_record(model: Model) -> ModelRecord:
    """Return the record of a model. Raise ArtifactError as `load_reference`, or if its held-out rows are malformed."""
    with refuse_failures("cannot read the held-out rows of the model", str(model.folder)):
        held_out = read_held_out(model.open_files(), model.goal)
    return ModelRecord(load_reference(model), held_out)


def evaluate_rows(
    model: LoadedModel,
    record: ModelRecord,
    predict: PredictRows,
    data: Any,
    by: str | None,
    options: EvaluatedRows,
) -> Evaluation:
    """Return the evaluation of a table; see `gpupipe.Model.evaluate`."""
    goal, costs = model.goal, options.costs
    if not goal.names or goal.task == "ranking" or not SUPERVISED.issuperset(goal.tasks):
        what = f"expected a model of classes, numbers or quantiles; found the task {goal.task}"
        raise ConfigError(what, where=str(model.folder), fix="compare its rows and scores with `gpupipe drift`")
    if costs is not None and goal.tasks != {"binary"}:
        raise ConfigError(f"costs are for the task binary; the task is {goal.task}", where="cost", fix="remove them")
    reference, recorded = record.reference, record.held_out
    collector = RowCollector(model, predict, options)
    scanned = scan_rows(model, reference, data, by, options.tables, options.as_of, record.counter, collector)
    with refuse_failures("the rows cannot be compared with the training rows of the model", str(model.folder)):
        drift = compare(model, reference, scanned, predict)
        rows = collector.finish()
        names = [*dict.fromkeys(name.partition("[")[0] for name in reference.metrics), *["cost"] * (costs is not None)]
        measurable = [name for name in dict.fromkeys(names) if is_measurable(name, goal, costs)]
        settings = MetricSettings(measurable, goal, model.decision, model.backend, costs)
        numbers, periods = _split(rows, scanned.by)
        measured = {i: settings.measure(own.labelled(goal)) for i, own in enumerate(periods) if own.is_complete}
        found_metrics = model.manifest.get("metrics") or {}
        folds = {name: float(found_metrics.get(f"{name}_std") or 0.0) for name in reference.metrics}
        estimator = LabelEstimator(settings, periods, measured, recorded, folds)
        support = _Support(model, reference, scanned, drift)
        found = []
        for i, (number, own) in enumerate(zip(numbers, periods, strict=True)):
            severity = support.severities.get(own.name, drift.severity)
            counts = collector.n_rows[number], collector.n_labelled[number]
            period = EvaluatedPeriod(own.name, *counts, severity=severity)
            if i in measured:
                labelled = own.labelled(goal)
                metrics = _compare(measured[i], len(labelled.y), reference.metrics)
                period = replace(period, status="measured", metrics=metrics)
                found.append(_with_calibration(period, labelled, goal))
                continue
            estimate = estimator.estimate(i)
            refused = support.refuse(own.name, number, [numbers[j] for j in measured if j < i], estimate.n_tests > 0)
            found.append(_estimated(period, estimate, refused, len(own.y), reference))
    notes = list(drift.notes)
    if rows.stride > 1:
        notes.append(f"metrics are those of one in {rows.stride} rows")
    if recorded is None:
        notes.append("the model has no held-out rows to calibrate estimates with: an earlier version wrote it")
    return Evaluation(tuple(found), tuple(_slices(rows, settings)), replace(drift, notes=(), metrics=()), tuple(notes))


def _estimated(
    period: EvaluatedPeriod, estimate: PeriodEstimate, refused: str, n_rows: int, reference: DriftReference
) -> EvaluatedPeriod:
    """Return a period with its estimated metrics, or with the reason why there are none."""
    if reason := estimate.reason or refused:
        return replace(period, reason=reason)
    metrics = _compare(estimate.metrics, n_rows, reference.metrics, estimate.reasons)
    if not estimate.metrics:
        why = next((f"{name} {reason}" for name, reason in estimate.reasons.items()), "no metric is defined")
        return replace(period, reason=why, n_tests=estimate.n_tests, metrics=metrics)
    status: Status = "estimated" if estimate.n_tests else "untested"
    return replace(period, status=status, n_tests=estimate.n_tests, metrics=metrics)


def _split(rows: CollectedRows, by: PeriodColumn | None) -> tuple[list[int], list[PeriodRows]]:
    """Return the numbers and rows of the periods, in order; without periods, the rows with and without a label."""
    numbers = [int(number) for number in np.unique(rows.keys) if number != NO_PERIOD]
    names = [UNDATED[number] if by is None else period_name(number, by.unit) for number in numbers]
    return numbers, [rows.take(name, rows.keys == number) for number, name in zip(numbers, names, strict=True)]


class _Support:
    """Drift of the inputs of each period, as far as estimates without labels depend on it."""

    def __init__(self, model: LoadedModel, reference: DriftReference, scanned: ScannedRows, drift: DriftReport) -> None:
        self.reference, self.scanned = reference, scanned
        self.drift = drift
        self.severities = {each.period: each.severity for each in drift.periods}
        weights = importance_weights(model.manifest) or {column.name: 1.0 for column in reference.columns}
        self._weights = dict(weights) | ({} if scanned.by is None else {scanned.by.column.name: 0.0})
        self._counter = CellCounter(input_columns(reference, model), model.backend.host, 0)

    def outside(self, number: int) -> float:
        """Return the share of values outside of the training rows, weighted by the importance of their columns."""
        counted = self.scanned.counts.periods[number] if self.scanned.by else self.scanned.counts.total
        cells = self._counter.by_column(counted.cells)
        total, found = 0.0, 0.0
        for column in self.reference.columns:
            weight = self._weights.get(column.name, 0.0) if column.kind != "datetime" else 0.0
            counts, n = cells[column.name], max(1, int(cells[column.name].sum()))
            total += weight
            if column.form == "ordered" and len(counts) > 2:
                found += weight * float(counts[1] + counts[-1]) / n
            elif column.form == "levels" and not column.is_hashed:
                found += weight * max(0.0, counts[UNSEEN_CELL] / n - column.counts[UNSEEN_CELL] / max(1, column.n_rows))
        return found / total if total else 0.0

    def refuse(self, name: str, number: int, tested: Sequence[int], is_tested: bool) -> str:
        """Return why the drift of a period allows no estimate; ``""`` if it does. `tested` are periods with labels."""
        limit = max([MOST_OUTSIDE, *(COMPARED_OUTSIDE * self.outside(each) for each in tested if self.scanned.by)])
        if (share := self.outside(number)) > limit:
            return f"{100 * share:.0f} % of the inputs, weighted by importance, are outside of the training rows"
        severity = self.severities.get(name, self.drift.severity)
        if severity == "high" and not is_tested:
            return "the drift is high, and no earlier period with labels has tested the estimate"
        columns, scores = (
            [next((p.severity for p in each.periods if p.period == name), each.severity) for each in all_of]
            for all_of in (self.drift.columns, self.drift.scores)
        )
        if "high" in scores and not {"low", "moderate", "high"}.intersection(columns):
            return "the scores drifted and no column did: values occur together that did not in the training rows"
        return ""


def _compare(
    metrics: Metrics, n_rows: int, recorded: Mapping[str, MetricReference], reasons: Mapping[str, str] | None = None
) -> tuple[EvaluatedMetric, ...]:
    """Return metrics with their intervals, compared with those of the run; and those that have a reason instead."""

    def one(name: str, found: MetricError) -> EvaluatedMetric:
        run = recorded.get(name) if name != "cost" else None  # those of the run may have other costs
        worse = run is not None and is_worse(name, found, n_rows, run)
        return EvaluatedMetric(name, found.value, *found.interval, None if run is None else run.value, worse)

    known = [one(name, found) for name, found in metrics.items()]
    return (*known, *(EvaluatedMetric(name, reason=why) for name, why in (reasons or {}).items()))


def _with_calibration(period: EvaluatedPeriod, rows: LabelledRows, goal: Goal) -> EvaluatedPeriod:
    """Return a period with mean target and output, and the expected calibration error, as far as the task has them."""
    output = rows.predicted.output
    if goal.task == "multiclass":
        error = expected_calibration_error(output.max(axis=1), output.argmax(axis=1) == rows.y)
        return replace(period, calibration_error=error)
    if goal.task not in ("binary", "regression"):
        return period
    period = replace(period, observed=float(rows.y.mean()), predicted=float(output.mean()))
    if goal.task == "regression":
        return period
    return replace(period, calibration_error=expected_calibration_error(output, rows.y == 1))


def _slices(rows: CollectedRows, settings: MetricSettings) -> Iterator[MetricSlice]:
    """Yield the metrics of the rows with labels, of all and of each level of the slice columns."""
    if not rows.slices:
        return
    everything = rows.take("", np.ones(len(rows.y), bool))
    known = everything.known
    total = settings.measure(everything.labelled(settings.goal))
    yield _slice("", None, int(known.sum()), total, {})
    run = {name: MetricReference(own.value, int(known.sum())) for name, own in list(total.items())[:1]}
    for name, values in rows.slices.items():
        codes, levels = stored_levels(values, SliceColumn(column=name))
        for code, level in enumerate([*levels, None]):
            own = known & (codes == (code if level is not None else -1))
            if own.any():
                metrics = settings.measure(rows.take("", own).labelled(settings.goal))
                yield _slice(name, level, int(own.sum()), metrics, run)


def _slice(
    column: str, level: str | None, n_rows: int, found: Metrics, run: Mapping[str, MetricReference]
) -> MetricSlice:
    ends = {name: own.interval for name, own in found.items()}
    worse = any(is_worse(name, found[name], n_rows, run[name]) for name in run if name in found)
    return MetricSlice(column, level, n_rows, {name: own.value for name, own in found.items()}, ends, worse)

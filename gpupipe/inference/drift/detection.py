"""Comparison of a table with the training rows of a model: one pass over its chunks, and predictions of a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.errors import ArtifactError, ConfigError, DataError, did_you_mean
from gpupipe.inference.drift.cell_counter import CellCounter
from gpupipe.inference.drift.counted_column import CountedColumn, counted_columns
from gpupipe.inference.drift.files import read_reference
from gpupipe.inference.drift.periods import (
    CountCells,
    PeriodColumn,
    PeriodCounts,
    choose_period_column,
    count_chunk,
    parse_by,
    period_column,
    require_few,
)
from gpupipe.inference.drift.reference import DriftReference
from gpupipe.inference.drift.sample import EvenSample, sample_rows
from gpupipe.io.chunks.chunk_stream import ChunkStream, read_ahead, slices
from gpupipe.io.column_settings import ColumnSettings
from gpupipe.io.files import mask
from gpupipe.io.input_files import input_files
from gpupipe.io.raw_columns import stored_names
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import plain_arrow, read_arrow
from gpupipe.models import Prediction
from gpupipe.models.fitted.prediction import join_predictions
from gpupipe.table.encode_chunks import rows_counted_after
from gpupipe.table.frames import rows_to_arrow
from gpupipe.table.schema import Column

if TYPE_CHECKING:
    from gpupipe.inference.interface import LoadedModel
    from gpupipe.inference.model import Model
    from gpupipe.inference.prediction.prediction_report import PredictionReport
    from gpupipe.inference.prediction.rows import RowsToPredict

PredictRows = Callable[["RowsToPredict"], tuple[Prediction, "PredictionReport"]]
NewCounter = Callable[[Sequence[CountedColumn]], CountCells]


class RowObserver(Protocol):
    """Receiver of the chunks of a scan, each with the column of the periods, which needs further `columns`."""

    @property
    def columns(self) -> Sequence[str]: ...

    def add(self, table: pa.Table, by: PeriodColumn | None) -> None: ...


@dataclass(frozen=True)
class ScannedRows:
    """Rows of a table: counts of all of them, and the predictions of some.

    `sample` has the rows to predict, with the inputs, the targets and the time column. `tables` and `as_of` are as in
    `gpupipe.Model.predict`.
    """

    counts: PeriodCounts
    sample: Sequence[pa.Table]
    by: PeriodColumn | None = None
    tables: Mapping[str, Any] | None = None
    as_of: Any = None
    notes: tuple[str, ...] = field(default=())


def load_reference(model: Model) -> DriftReference:
    """Return the reference of a model. Raise ArtifactError if the model has none, or it is corrupt."""
    where = str(model.folder)
    with refuse_failures("cannot read the reference of the training rows", where):
        reference = read_reference(model.open_files())
        if reference is not None:
            counted_columns(reference.columns, model.features.input_schema)  # raises if they do not belong together
    if reference is None:
        what = "the model has no reference of its training rows: it was written by an earlier version"
        raise ArtifactError(what, where=where, fix="run its configuration again")
    return reference


def scan_rows(
    model: LoadedModel,
    reference: DriftReference,
    data: Any,
    by: str | None,
    tables: Mapping[str, Any] | None,
    as_of: Any,
    counter: NewCounter | None,
    observer: RowObserver | None = None,
) -> ScannedRows:
    """Return the counts of a table and the rows to predict."""
    opened = open_rows(model, reference, data, by, () if observer is None else observer.columns)
    counts = PeriodCounts()
    count = None
    period = None
    is_whole = model.features.derivation is not None  # a history must not lose rows
    sample, n_rows = EvenSample(2**62 if is_whole else sample_rows(len(opened.names))), 0
    for table in read_ahead(opened.chunks):
        if count is None:
            columns, n = input_columns(reference, model), opened.estimate_rows(table)
            count = CellCounter(columns, model.backend, n).count if counter is None else counter(columns)
            period = opened.period(table, model)
        with rows_counted_after(n_rows):
            counts = counts.merge(count_chunk(count, table, period))
        if period is not None:
            require_few(len(counts.periods), period.unit)
        sample.add(table)
        if observer is not None:
            observer.add(table, period)
        n_rows += table.num_rows
        del table  # before the next chunk is read
    if not n_rows:
        raise DataError("there are no rows", where=opened.label, fix="check that this is the right table")
    return ScannedRows(counts, sample.tables(), period, tables, as_of, opened.notes())


@dataclass(frozen=True)
class OpenedRows:
    """Table to compare, not read yet.

    `names` are the columns that are read, and `label` is for messages. `notes` returns notes about the chunks that were
    read. `by` is the unit and the column of the periods. `n_rows` is 0 if unknown.
    """

    chunks: Iterable[pa.Table]
    names: tuple[str, ...]
    label: str
    notes: Callable[[], tuple[str, ...]] = tuple
    by: tuple[Any, str] | None = None
    n_rows: int = 0

    def estimate_rows(self, first: pa.Table) -> int:
        """Return the number of rows, estimated from the first chunk and the size of the files if unknown."""
        if not isinstance(self.chunks, ChunkStream):
            return self.n_rows
        return int(max(first.num_rows, first.num_rows * self.chunks.n_bytes // max(1, first.nbytes)))

    def period(self, first: pa.Table, model: LoadedModel) -> PeriodColumn | None:
        """Return the column of the periods, with its time format; None without periods."""
        if self.by is None:
            return None
        known: dict[str, Column] = {column.name: column for column in model.features.input_schema}
        return period_column(*self.by, known.get(self.by[1]), first, model.backend)


def open_rows(
    model: LoadedModel, reference: DriftReference, data: Any, by: str | None, further: Sequence[str] = ()
) -> OpenedRows:
    """Return the table that `data` stands for, as chunks, with the `further` columns.

    Raise ConfigError if `by` is invalid or a further column does not exist, and GpupipeError as when reading the table.
    """
    optional = [*model.goal.names, reference.time, *([] if by is None else [parse_by(by)[1]]), *further]
    optional += [column.name for column in model.features.input_schema if column.kind == "datetime"]
    wanted: list[tuple[Any, str]] = []

    def choose(found: Sequence[str]) -> Sequence[str]:
        names, period = _names(model, reference, found, by, further)
        wanted.extend([] if period is None else [period])
        return names

    opened = open_table(model, data, [name for name in optional if name], choose)
    return replace(opened, by=wanted[0] if wanted else None)


def open_table(
    model: LoadedModel,
    data: Any,
    optional: Sequence[str],
    choose: Callable[[Sequence[str]], Sequence[str]],
    texts: Sequence[str] = (),
) -> OpenedRows:
    """Return a table as chunks: a frame, a path, or a source.

    Of a frame, the inputs of the model and the `optional` columns are converted. `choose` returns the columns to read
    of those that the table has. `texts` are read as text unless declared: the values of one chunk of a CSV file must
    not decide how a column of all rows is read.
    """
    from gpupipe.inference.prediction.input_source import strips_texts

    if not isinstance(data, str | Path | TableSource):
        rows = rows_to_arrow(data, model.inputs, optional, model.features.input_schema.lists)
        table, label = plain_arrow(rows, strips_texts(model.manifest["reading"])), "the given table"
        table = table.select(list(choose(table.column_names)))
    else:
        source = declare_texts(model, data if isinstance(data, TableSource) else model.source_of(str(data)), texts)
        label, files = mask(source.label), input_files(source)
        names = tuple(choose(stored_names(source, files)))
        if source.paths and model.features.derivation is None:
            stream = ChunkStream(source, files, names)
            return OpenedRows(stream, names, label, lambda: tuple(stream.notes.lines()))
        table = read_arrow(source, names, files=files).table
    return OpenedRows(slices(table), tuple(table.column_names), label, n_rows=table.num_rows)


def _names(
    model: LoadedModel, reference: DriftReference, found: Sequence[str], by: str | None, further: Sequence[str]
) -> tuple[tuple[str, ...], tuple[Any, str] | None]:
    """Return the columns to read, and unit and column of the periods."""
    for absent in [name for name in further if name not in found][:1]:
        hint = did_you_mean(absent, found) or f"use one of the columns {', '.join(found[:20])}"
        raise ConfigError(f"no column {absent!r} in the table", where="slice", fix=hint, names=[absent])
    wanted = None
    if by is not None:
        wanted = (parse_by(by)[0], choose_period_column(by, reference.time, tuple(model.features.input_schema), found))
    targets = [name for name in model.goal.names if name in found]
    if len(targets) < len(model.goal.names):
        targets = []
    names = dict.fromkeys([*model.inputs, *targets, *([] if wanted is None else [wanted[1]]), *further])
    return tuple(names), wanted


def declare_texts(model: LoadedModel, source: TableSource, further: Sequence[str]) -> TableSource:
    """Return a source whose `further` columns, and class labels that were text in training, are read as text."""
    texts = [own.target for own in model.goal.each if own.target and any(isinstance(v, str) for v in own.labels)]
    declared = {name: ColumnSettings(kind="text") for name in (*texts, *further)} | source.declared
    return source.model_copy(update={"declared": declared})


def predict_sample(model: LoadedModel, scanned: ScannedRows, predict: PredictRows) -> Prediction:
    """Return the calibrated predictions of the sample, without rules and warnings."""
    from gpupipe.inference.prediction.rows import rows_to_predict

    lenient = replace(model, rules=(), warns=False)
    tables = [table.select(list(model.inputs)) for table in scanned.sample]
    rows = [rows_to_predict(lenient, table, scanned.tables, scanned.as_of) for table in tables]
    return join_predictions([predict(each)[0] for each in rows])


def input_columns(reference: DriftReference, model: LoadedModel) -> list[CountedColumn]:
    """Return the input columns of a model with their cells."""
    return counted_columns(reference.columns, model.features.input_schema)

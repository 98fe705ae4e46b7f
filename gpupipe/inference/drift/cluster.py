"""Comparison of a table on the workers of a cluster: each counts its own chunks, and the driver adds the counts up.

Chunks are read twice, so that no worker keeps rows: which rows are predicted depends on the number of rows before them,
which is known only when all chunks have been counted. The driver predicts these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.config.cluster import ClusterSettings
from gpupipe.errors import ConfigError, SchemaError
from gpupipe.inference.drift.cell_counter import CellCounter
from gpupipe.inference.drift.counted_column import CountedColumn
from gpupipe.inference.drift.detection import ScannedRows, input_columns, load_reference, open_rows
from gpupipe.inference.drift.periods import PeriodColumn, PeriodCounts, count_chunk, require_few
from gpupipe.inference.drift.reference import DriftReference
from gpupipe.inference.drift.sample import every_row, join_alike, sample_rows, stride_of
from gpupipe.io.chunks.chunk import SourceChunk
from gpupipe.io.chunks.chunk_stream import ChunkStream, split_file
from gpupipe.io.files import mask
from gpupipe.io.notes import Notes
from gpupipe.io.settings import TableSource

if TYPE_CHECKING:
    from gpupipe.inference.drift.report import DriftReport
    from gpupipe.inference.model import Model
    from gpupipe.partitions.workers import Workers


@dataclass(frozen=True)
class CountedChunk:
    """Counts of a chunk, and notes about its rows."""

    n_rows: int
    counts: PeriodCounts
    notes: Notes


def detect_on_cluster(
    model: Model,
    source: TableSource,
    cluster: ClusterSettings,
    by: str | None = None,
    device: str = "auto",
    log: Callable[[str], None] = lambda text: None,
) -> DriftReport:
    """Return the report on a table that the workers of a cluster count; it is that of one machine.

    `source` has paths that all workers can open, and `by` is as in `gpupipe.Model.drift`. `cluster` has the workers to
    connect to or start, and `device` is that of the workers: ``"auto"``, ``"cpu"`` or ``"gpu"``. `log` is called with
    each note about the workers.

    Raise ConfigError if features are computed from the history of rows, which needs all rows at once; ClusterError if
    the workers cannot be started or reached, or are lost; GpupipeError as on one machine.
    """
    from gpupipe.inference.drift.comparison import compare
    from gpupipe.inference.prediction.batches import predict_rows

    reference = load_reference(model)  # report errors before workers are started
    if model.features.derivation is not None:
        what = "--cluster is not supported for models with features of keys and texts, which need all rows at once"
        raise ConfigError(what, fix="remove --cluster")
    from gpupipe.dask.connect import connect

    with connect(cluster, device) as workers:
        log(f"{workers.n_workers} workers on the {workers.device}: {workers.reason}")
        scanned = scan_on_workers(model, reference, source, by, workers)
        for line in workers.take_warnings():
            log(line)
    return compare(model, reference, scanned, partial(predict_rows, model))


def scan_on_workers(
    model: Model, reference: DriftReference, source: TableSource, by: str | None, workers: Workers
) -> ScannedRows:
    """Return the counts of a table and the rows to predict, read by `workers`."""
    opened = open_rows(model, reference, source, by)
    stream = opened.chunks
    if not isinstance(stream, ChunkStream):
        raise ConfigError("expected files to compare on a cluster", where=opened.label, fix="remove --cluster")
    files = stream.splittable()
    each = [split_file(file) for file in files]
    first = next(filter(None, map(stream.read, chain.from_iterable(each))), None)
    period = None if first is None else opened.period(first.table, model)
    sent = workers.put((stream, tuple(input_columns(reference, model)), period))
    found = _count(sent, each, workers)
    again = [i for i, counted in enumerate(found) if any(part is None for part in counted)]
    for i in again:  # a chunk of text that depends on the rows before it: count the whole file
        each[i] = [SourceChunk(files[i].file)]
    for i, counted in zip(again, _count(sent, [each[i] for i in again], workers), strict=True):
        found[i] = counted
    counts = PeriodCounts()
    first_rows = []
    n_rows = 0
    for file, counted in zip(files, found, strict=True):
        before = n_rows
        for part in counted:
            assert part is not None
            first_rows.append(n_rows)
            n_rows += part.n_rows
            counts = counts.merge(part.counts)
            stream.notes.include(part.notes)
        stream.note_file(file, n_rows - before)
    stream.require_rows(n_rows)
    if period is not None:
        require_few(len(counts.periods), period.unit)
    stride = stride_of(n_rows, sample_rows(len(opened.names)))
    chunks = list(chain.from_iterable(each))
    labels = [f"rows of chunk {i + 1} of {len(chunks)}" for i in range(len(chunks))]
    tasks = [(sent, chunk, start, stride) for chunk, start in zip(chunks, first_rows, strict=True)]
    parts = workers.gather(workers.map(_sample, tasks, labels))
    sample = join_alike(part for part in parts if part.num_rows)
    return ScannedRows(counts, sample, period, notes=opened.notes())


def _count(sent: Any, each: Sequence[Sequence[SourceChunk]], workers: Workers) -> list[list[CountedChunk | None]]:
    tasks = [(sent, chunk) for chunk in chain.from_iterable(each)]
    labels = [f"counting chunk {i + 1} of {len(tasks)}" for i in range(len(tasks))]
    found = iter(workers.gather(workers.map(_count_one, tasks, labels)))
    return [[next(found) for _ in chunks] for chunks in each]


Sent = tuple[ChunkStream, tuple[CountedColumn, ...], PeriodColumn | None]


def _count_one(backend: Backend, sent: Sent, chunk: SourceChunk) -> CountedChunk | None:
    stream, columns, period = sent
    read = stream.read(chunk)
    if read is None:
        return None
    n_rows = read.table.num_rows
    counts = PeriodCounts()
    if n_rows:
        try:
            counts = count_chunk(CellCounter(columns, backend, n_rows).count, read.table, period)
        except SchemaError as error:
            error.where = f"{error.where}, in a chunk of {mask(chunk.file.path)}"
            raise
    return CountedChunk(n_rows, counts, read.notes)


def _sample(backend: Backend, sent: Sent, chunk: SourceChunk, first_row: int, stride: int) -> pa.Table:
    read = sent[0].read(chunk)
    return every_row(pa.table({}) if read is None else read.table, first_row, stride)

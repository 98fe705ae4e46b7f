"""Reference of a run: training rows and scores of held-out rows as cells with counts, and some held-out rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.program.expressions import NumericExpr, Producer
from gpupipe.features.statistics.training import Statistics, make_statistics
from gpupipe.inference.drift.cell_counter import BIN_WORK
from gpupipe.inference.drift.reference import (
    EDGE_SHARES,
    DriftColumn,
    DriftReference,
    MetricReference,
    level_cells,
    number_edges,
    time_edges,
)
from gpupipe.inference.drift.scores import score_references
from gpupipe.inference.evaluation.held_out import HeldOutRows
from gpupipe.inference.prediction.prediction_table import prediction_table
from gpupipe.model_parts.decision import calibrates
from gpupipe.table.blocks import EncodedTable, Table
from gpupipe.table.schema import FIRST_LEVEL, NULL, RAW_KINDS, Column, Schema
from gpupipe.training.job import Job
from gpupipe.training.selection.leaderboard import LeaderboardResult
from gpupipe.typing import Array

Edges = Mapping[str, Array]


def collect_reference(job: Job, outcome: LeaderboardResult, rows: Array) -> DriftReference:
    """Return the reference of the exported model of a run.

    `rows`, bool, shape (n_rows,), are those that the exported model was trained on; they count without their weights.
    """
    held_out = outcome.held_out
    predicted = prediction_table(held_out.predicted.mapped(job.backend.to_host), job.goal, held_out.decision)
    if held_out.folds is not None and any(calibrates(job.config.evaluate, task) for task in job.goal.tasks):
        # Each fold has a calibration of its rows only, so the probabilities are not those of the exported one.
        names = [name for name in predicted.column_names if not name.startswith("probability_")]
        predicted = predicted.select(names)
    metrics = {}
    if held_out.truth is not None:
        n_rows = len(held_out.truth)
        recorded = outcome.leaderboard[0].metrics
        metrics = {name: MetricReference(v, n_rows) for name, v in recorded.items() if math.isfinite(v)}
    return DriftReference(
        tuple(_input_references(job, outcome, rows)),
        tuple(score_references(predicted, job.goal)),
        metrics,
        job.config.split.time or "",
    )


def collect_held_out(job: Job, outcome: LeaderboardResult) -> HeldOutRows | None:
    """Return outputs and targets of held-out rows; None without a target, and for a ranking."""
    held_out = outcome.held_out
    if held_out.truth is None or not len(held_out.truth) or job.goal.task == "ranking":
        return None
    output = np.asarray(job.backend.to_host(held_out.predicted.output), np.float64)
    return HeldOutRows(output, np.asarray(held_out.truth.y, np.float64)).sample()


def _input_references(job: Job, outcome: LeaderboardResult, rows: Array) -> list[DriftColumn]:
    features = outcome.champion.features
    served = {column.source: column for column in features.input_schema if not column.derived}
    names = [name for name in features.inputs if name in job.table.schema]
    table = job.table.select(job.table.schema.select(names))
    if not rows.all():
        table = table.take(rows, job.backend)
    texts = [name for name in names if table.schema[name].kind in RAW_KINDS or name not in served]
    found = {name: _presence(name, served.get(name), _null_count(table, name, job.backend), table) for name in texts}
    encoded = [name for name in names if name not in found]
    if encoded:
        coded = table.select(table.schema.select(encoded))
        statistics = make_statistics(coded, job.backend, None, job.config.seed)
        found |= {each.name: each for each in column_references(statistics, served)}
    return [found[name] for name in names]


def _presence(name: str, column: Column | None, n_null: int, table: EncodedTable) -> DriftColumn:
    return DriftColumn(name, "raw" if column is None else column.kind, np.array([n_null, table.n_rows - n_null]))


def _null_count(table: EncodedTable, name: str, backend: Backend) -> int:
    """Return the number of nulls of a column of any kind."""
    column = table.schema[name]
    if column.kind in RAW_KINDS:
        return table.text_nulls(name)
    statistics = make_statistics(table.select(Schema((column,))), backend, None, 0)
    return int(column_references(statistics, {name: column})[0].counts[0])


def column_references(statistics: Statistics, served: Mapping[str, Column]) -> list[DriftColumn]:
    """Return the cells and counts of the encoded columns of training rows.

    They are equal for every partition of the rows: quantiles are exact, and counts add up. `statistics` covers these
    columns and no others; `served` has the columns of the model by the input column that they are encoded from.
    """
    schema = statistics.table.schema
    ordered = [column for column in schema if column.levels is None]
    edges = _edges(statistics, ordered)
    counts: dict[str, Array] = {}
    if ordered:
        parts = statistics.map_tables(partial(count_bins, edges=edges), list(edges))
        counts = {name: np.add.reduce([part[name] for part in parts]) for name in edges}
    found = []
    for column in schema:
        if column.levels is None:
            found.append(_ordered(DriftColumn(column.name, column.kind, counts[column.name], edges[column.name])))
            continue
        codes = statistics.code_counts(column.name)
        is_hashed = served[column.name].hash_of is not None
        levels, cells = level_cells(column.levels, codes[FIRST_LEVEL:], int(codes[NULL]), is_hashed)
        found.append(DriftColumn(column.name, column.kind, cells, levels=levels, is_hashed=is_hashed))
    return found


def _edges(statistics: Statistics, columns: Sequence[Column]) -> dict[str, Array]:
    numbers = [column for column in columns if column.kind == "numeric"]
    loads = [NumericExpr(column.name, (column.name,), Producer("LOAD", column.name)) for column in numbers]
    quantiles = statistics.quantiles(loads, list(EDGE_SHARES)) if loads else []
    edges = {column.name: number_edges(each, column.storage) for column, each in zip(numbers, quantiles, strict=True)}
    times = [column.name for column in columns if column.kind == "datetime"]
    return edges | {name: time_edges(*statistics.time_range(name)) for name in times}


def count_bins(backend: Backend, table: Table, names: Sequence[str], edges: Edges) -> dict[str, Array]:
    """Return the counts of nulls and bins of columns of an encoded table, by name."""
    engine = backend.reductions(BIN_WORK * table.n_rows * len(names))

    def count(name: str) -> Array:
        x = table.column(name)
        counts = backend.xp.zeros(len(edges[name]) + 2, np.int64)
        engine.bin(x, backend.to_device(edges[name].astype(x.dtype)), counts)
        return backend.to_host(counts)

    return dict(zip(names, backend.map(count, names), strict=True))


def _ordered(column: DriftColumn) -> DriftColumn:
    """Return a column without edges if all its rows are null."""
    if column.counts[1:].any():
        return column
    assert column.edges is not None
    return replace(column, counts=np.array([column.n_rows, 0]), edges=column.edges[:0])

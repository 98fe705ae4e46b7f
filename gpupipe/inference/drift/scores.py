"""Predictions of a model as columns with cells: probabilities, values, and the shares of predicted classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from gpupipe.arrow_numpy import to_numpy
from gpupipe.backends.base import Backend
from gpupipe.inference.drift.cell_counter import CellCounter
from gpupipe.inference.drift.counted_column import CountedColumn
from gpupipe.inference.drift.reference import EDGE_SHARES, DriftColumn, level_cells, n_cells, number_edges
from gpupipe.model_parts.goal import Goal
from gpupipe.table.schema import Column
from gpupipe.table.string_columns import as_dictionary
from gpupipe.typing import Array

MOST_OUTPUTS = 20  # numbers per row that are compared: of many classes or embeddings, the first
BOUNDS = ("lower", "upper", "set_")  # columns that follow from others


def score_columns(predicted: pa.Table, goal: Goal) -> pa.Table:
    """Return the columns of a prediction table to compare.

    The probability of the first of two classes is dropped, as it follows from the other, and so are intervals and sets.
    """
    redundant = set()
    for own in goal.each:
        if own.task == "binary":
            target = f"{own.target}_" if goal.targets else ""
            redundant.add(f"probability_{target}{own.label_texts[0]}")
    names = [name for name in predicted.column_names if name not in redundant and not name.startswith(BOUNDS)]
    numbers = [name for name in names if pa.types.is_floating(predicted.schema.field(name).type)]
    skipped = set(numbers[MOST_OUTPUTS:])
    return predicted.select([name for name in names if name not in skipped])


def score_references(predicted: pa.Table, goal: Goal) -> list[DriftColumn]:
    """Return the cells of each compared column of a prediction table, with the counts of its rows."""
    table = score_columns(predicted, goal)
    empty = [_cells(name, table.column(name)) for name in table.column_names]
    return [replace(each, counts=counts) for each, counts in zip(empty, count_scores(empty, table), strict=True)]


def _cells(name: str, values: pa.ChunkedArray) -> DriftColumn:
    if pa.types.is_floating(values.type):
        x = to_numpy(values).astype(np.float64)
        x = x[np.isfinite(x)]
        edges = number_edges(np.quantile(x, EDGE_SHARES).tolist(), "float64") if len(x) else np.empty(0, np.float32)
        return DriftColumn(name, "numeric", np.zeros(n_cells(edges, None), np.int64), edges)
    counted = as_dictionary(values).combine_chunks().value_counts()
    texts, counts = counted.field("values").cast(pa.string()).to_pylist(), to_numpy(counted.field("counts"))
    order = sorted(range(len(texts)), key=lambda i: texts[i])
    levels, cells = level_cells([texts[i] for i in order], counts[order], 0, is_hashed=True)
    return DriftColumn(name, "categorical", np.zeros_like(cells), levels=levels, is_hashed=True)


def count_scores(references: Sequence[DriftColumn], predicted: pa.Table) -> list[Array]:
    """Return the counts of the cells of scores over the rows of a prediction table."""
    from gpupipe.backends import choose

    backend: Backend = choose("cpu")
    counter = CellCounter([_counted(each) for each in references], backend, predicted.num_rows)
    return list(counter.by_column(counter.count(predicted)).values())


def _counted(reference: DriftColumn) -> CountedColumn:
    if reference.edges is not None:
        return CountedColumn(reference, Column(reference.name, "numeric", "double", storage="float64"))
    column = Column(reference.name, "categorical", "string", storage="int8", hash_of=reference.name, n_buckets=1)
    return CountedColumn(reference, column)

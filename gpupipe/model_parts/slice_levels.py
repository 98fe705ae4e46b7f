"""Levels of the column that divides rows into slices: its values, or bins of its numbers and times."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from gpupipe.errors import ConfigError
from gpupipe.io.raw_columns import numbers_of_texts
from gpupipe.metrics import SliceColumn
from gpupipe.metrics.bootstrap import FEWEST_ROWS
from gpupipe.report.text import column_value, whole_number
from gpupipe.table.numeric_columns import as_numbers
from gpupipe.table.schema import NAT
from gpupipe.typing import Array

MOST_LEVELS = 20  # of a column; if there are more, rare ones are one slice
MOST_VALUES = 10  # whole numbers that are slices by themselves
N_BINS = 4

RowLevels = tuple[Array, list[str]]
"""Position of the level of each row, int8, shape (n_rows,), -1 if the value is missing; and the levels."""


def stored_levels(column: pa.ChunkedArray, own: SliceColumn) -> RowLevels:
    """Return the levels of a column as it is stored; texts that all are numbers are numbers."""
    column = numbers_of_texts(column)
    if pa.types.is_temporal(column.type):
        micros = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return number_levels(micros.fill_null(NAT).to_numpy(), own)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        return number_levels(as_numbers(own.column, column).cast(pa.float64()).to_numpy(), own)
    texts = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return frequent_levels(texts.indices.fill_null(-1).to_numpy(), texts.dictionary.to_pylist(), own)


def _unsuitable(own: SliceColumn, what: str, fix: str) -> ConfigError:
    return ConfigError(f"column {own.column!r} {what}", where="evaluate.by", fix=fix, names=[own.column])


def frequent_levels(codes: Array, levels: Sequence[str], own: SliceColumn) -> RowLevels:
    """Return the levels with the most rows, most frequent first, and one for all others; negative codes are missing."""
    if own.bins is not None:
        raise _unsuitable(own, "has levels; bins are for numbers and times", "remove bins")
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    used = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    n_named = len(used)
    if n_named > MOST_LEVELS:
        n_named = min(MOST_LEVELS - 1, int(np.count_nonzero(counts >= FEWEST_ROWS)))
    position = np.full(len(levels) + 1, -1, np.int8)  # the last one is that of missing values
    position[used] = np.minimum(np.arange(len(used)), n_named)
    others = [f"{len(used) - n_named:,} {'other ' * (n_named > 0)}levels"] if len(used) > n_named else []
    return position[np.where(codes < 0, len(levels), codes)], [*(levels[i] for i in used[:n_named]), *others]


def number_levels(values: Array, own: SliceColumn) -> RowLevels:
    """Return numbers, or times as int64, as levels: each value if there are few whole ones, otherwise bins."""
    kind, bins = "datetime" if values.dtype.kind == "i" else "numeric", own.bins
    is_missing = values == NAT if kind == "datetime" else np.isnan(values)
    known = values[~is_missing]
    if bins is None and kind == "numeric" and (known == np.round(known)).all():
        distinct = np.unique(known)
        if len(distinct) <= MOST_VALUES:
            names = [whole_number(float(value)) for value in distinct]
            return np.where(is_missing, -1, np.searchsorted(distinct, values)).astype(np.int8), names
    if isinstance(bins, tuple):
        if kind == "datetime":
            raise _unsuitable(own, "has times; edges of bins are for numbers", "state how many bins, as in bins: 4")
        edges = np.array(bins, values.dtype)  # so that a float32 0.7 is in the bin from 0.7
        texts = [column_value(edge, kind) if edge.is_integer() else repr(edge) for edge in bins]
    else:
        shares = np.arange(1, bins or N_BINS) / (bins or N_BINS)
        edges = np.unique(np.quantile(known, shares, method="inverted_cdf")) if len(known) else known
        higher = known[known > edges[0]] if len(known) and edges[-1] == known.min() else known[:0]
        edges = np.array([higher.min()]) if len(higher) else edges[edges > known.min()] if len(known) else edges
        texts = [column_value(edge, kind) for edge in edges.tolist()]
        if len(set(texts)) < len(texts):
            texts = [column_value(edge, kind, 17) for edge in edges.tolist()]
    inner = [f"{low} to below {high}" for low, high in pairwise(texts)]
    names = [f"below {texts[0]}", *inner, f"{texts[-1]} and above"] if texts else ["all values"]
    return np.where(is_missing, -1, np.searchsorted(edges, values, side="right")).astype(np.int8), names

"""Distribution of each column over the training rows, kept in a model: bins or levels, and the rows in each.

Every row is in one cell of a column. The first cell holds nulls. Numbers and times then have one cell below the
training range, up to 62 between quantiles, and one above the range. Categories have a cell of unseen levels, one of all
levels that are not named, and one for each of the most frequent levels. Texts have one cell of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from gpupipe.typing import Array

ColumnForm = Literal["ordered", "levels", "presence"]

N_BINS = 62  # in the training range; with one bin on each side, 64
MOST_LEVELS = 62  # with a cell of unseen and one of other levels, 64
FEWEST_NAMED = 25  # rows of a named level if there are more levels than names
MOST_LETTERS = 64  # of a level; longer ones count as other levels, so that the size of a column is bounded
EDGE_SHARES = tuple(np.linspace(0.0, 1.0, N_BINS + 1).tolist())
NULL_CELL, UNSEEN_CELL, OTHER_CELL, FIRST_LEVEL_CELL = range(4)


@dataclass(frozen=True)
class DriftColumn:
    """Cells of a column, and the number of training rows in each."""

    name: str
    # {"numeric", "boolean", "categorical", "datetime", "text", "list", "raw"}: ops over keys and texts read raw columns
    # unencoded
    kind: str
    # int64, shape (n_cells,): Rows per cell. The count of unseen levels is the number expected among as many
    # new rows.
    counts: Array
    # float32, float64 or int64, shape (k,): Numbers and times: ascending; cell ``1 + i`` has the values for
    # which i edges are not greater. The first edge is the smallest training value, and the last is greater than the
    # largest. Empty if all training rows are null.
    edges: Array | None = None
    levels: tuple[str, ...] | None = None  # categories and booleans: the named levels, the most frequent first
    is_hashed: bool = False  # true if the model has no vocabulary, so that unseen levels count as other levels

    def __repr__(self) -> str:
        return f"DriftColumn({self.name!r}, {self.kind}, {len(self.counts)} cells, {self.n_rows:,} rows)"

    @property
    def form(self) -> ColumnForm:
        """The kind of cells that the column has."""
        return "ordered" if self.edges is not None else "levels" if self.levels is not None else "presence"

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return int(self.counts.sum())


def n_cells(edges: Array | None, levels: Sequence[str] | None) -> int:
    """Return the number of cells of a column with these edges or levels; 2 with neither."""
    if edges is not None:
        return len(edges) + 2
    return 2 if levels is None else FIRST_LEVEL_CELL + len(levels)


@dataclass(frozen=True)
class MetricReference:
    """Metric of the run, and the number of rows that it was measured on."""

    value: float
    n_rows: int


@dataclass(frozen=True)
class DriftReference:
    """Distributions of the input columns of a model over its training rows, and of its scores.

    The scores are outputs of models for rows that they were not trained on. `time` is the column that the run was split
    by in time; ``""`` without one.
    """

    columns: tuple[DriftColumn, ...]
    scores: tuple[DriftColumn, ...] = ()
    metrics: Mapping[str, MetricReference] = field(default_factory=dict)
    time: str = ""

    def __repr__(self) -> str:
        return f"DriftReference({len(self.columns)} columns, {len(self.scores)} scores)"


def number_edges(quantiles: Sequence[float], storage: str) -> Array:
    """Return the edges of the bins of numbers, ascending and distinct.

    They are float32 if that keeps the quantiles apart: a value is compared with the edges as stored, so rounding them
    moves values to a neighbouring bin in training and later alike.

    `quantiles` are those of `EDGE_SHARES`, ascending: the first is the smallest value, the last the largest. `storage`
    is the dtype of the column, ``"float32"`` or ``"float64"``.
    """
    exact = np.array(quantiles, np.float64)
    single = _edges(exact, np.dtype(np.float32))
    if storage == "float32":
        return single
    double = _edges(exact, np.dtype(np.float64))
    return single if len(single) == len(double) else double


def _edges(quantiles: Array, dtype: np.dtype[Any]) -> Array:
    low, high = (dtype.type(quantiles[at]) for at in (0, -1))
    if low > quantiles[0]:
        low = np.nextafter(low, dtype.type(-np.inf))
    if high <= quantiles[-1]:
        high = np.nextafter(high, dtype.type(np.inf))
    inner = quantiles[1:-1].astype(dtype)
    inner = np.where(
        inner > quantiles[1:-1], np.nextafter(inner, dtype.type(-np.inf)), inner
    )  # so that ties stay above
    edges: Array = np.unique(np.concatenate([[low], inner[(inner > low) & (inner < high)], [high]]).astype(dtype))
    return edges


def time_edges(first: int, last: int) -> Array:
    """Return the edges of equal bins of times from `first` to `last`, int64 microseconds."""
    edges: Array = np.unique(np.array([first + (last - first) * i // N_BINS for i in range(N_BINS)] + [last + 1]))
    return edges


def level_cells(
    levels: Sequence[str], counts: Array, n_null: int, is_hashed: bool = False
) -> tuple[tuple[str, ...], Array]:
    """Return the named levels of a column, and the counts of its cells.

    The number of rows with unseen levels that as many new rows would have is the number of levels that occur once
    (Good, "The population frequencies of species and the estimation of population parameters", Biometrika 40, 1953).
    These rows do not count in the cells of their levels.

    If there are more than 62 levels, those of fewer than 25 rows are not named: the most frequent of many rare levels
    are so partly by chance, and would have fewer rows in any other table.

    `counts`, int64, shape (len(levels),), are the rows of each level. `is_hashed` is as in `DriftColumn`.
    """
    counts = np.asarray(counts, np.int64)
    fewest = 1 if np.count_nonzero(counts) <= MOST_LEVELS else FEWEST_NAMED
    ranked = np.argsort(-counts, kind="stable").tolist()
    order = [i for i in ranked if counts[i] >= fewest and len(levels[i]) <= MOST_LETTERS]
    named = order[:MOST_LEVELS]
    rows = counts.copy()
    n_unseen = 0 if is_hashed else int((counts == 1).sum())
    if not is_hashed:
        rows[counts == 1] = 0
    cells = np.zeros(FIRST_LEVEL_CELL + len(named), np.int64)
    cells[NULL_CELL], cells[UNSEEN_CELL] = n_null, n_unseen
    cells[FIRST_LEVEL_CELL:] = rows[named]
    cells[OTHER_CELL] = int(rows.sum()) - int(rows[named].sum())
    return tuple(levels[i] for i in named), cells

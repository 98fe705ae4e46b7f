"""Numeric sample of the table, for analyses that are too slow on all rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpupipe.random_streams import make_generator
from gpupipe.table.blocks import Table
from gpupipe.table.schema import NAT, NULL
from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe.typing import Array

# Cells are float64: 320 MB
MIN_ROWS = 2_000
MAX_ROWS = 20_000
MAX_CELLS = 40_000_000
FOLDS = 3
SEED = 0


@dataclass(frozen=True)
class NumericSample:
    """A random sample of the rows with a known target.

    - `columns` (mapping of str to array of float64, shape (n_rows,)): numbers, codes of levels, or times in
      microseconds; NaN where null.
    - `y` (array of float64, shape (n_rows,)): class codes, or the numbers to predict.
    - `fold` (array of int, shape (n_rows,)): the cross-validation fold of each row.
    - `is_all`: whether the sample contains all rows with a known target.
    - `coded`: the columns with codes of levels, whose order has no meaning.
    - `times`: the columns with times.
    - `marked`: the columns whose nulls are marks that `gpupipe.starter.sentinels` found, such as 99999.
    """

    columns: Mapping[str, Array]
    y: Array
    task: Task
    fold: Array
    is_all: bool
    coded: frozenset[str] = frozenset()
    times: frozenset[str] = frozenset()
    marked: frozenset[str] = frozenset()

    def without(self, names: Collection[str]) -> NumericSample:
        """Return the sample without some of its columns."""
        return replace(self, columns={name: x for name, x in self.columns.items() if name not in names})

    def head(self, n_rows: int) -> NumericSample:
        """Return at most `n_rows` rows, spread evenly over the sample."""
        if len(self.y) <= n_rows:
            return self
        rows = np.linspace(0, len(self.y) - 1, n_rows).astype(np.intp)
        columns = {name: x[rows] for name, x in self.columns.items()}
        return replace(self, columns=columns, y=self.y[rows], fold=self.fold[rows], is_all=False)

    @property
    def ranks(self) -> Array:
        """Target ranks in [0, 1] for regression, which limits the influence of outliers; else `y`."""
        if self.task in CLASSIFICATION:
            return self.y
        from scipy.stats import rankdata

        ranks: Array = rankdata(self.y) / len(self.y)
        return ranks


def draw_sample(
    table: Table, y: Array, task: Task, target: str, texts: Mapping[str, Array], marked: Collection[str] = ()
) -> NumericSample:
    """Return a sample of a table in which every row has a target.

    `texts` states for each text column, whose values the table does not store, which rows are filled; the sample has
    these columns with a single level.
    """
    generator = make_generator(SEED, "starter")
    rows = np.arange(table.n_rows)
    names = [column.name for column in table.schema if column.storage and column.name != target]
    most = max(MIN_ROWS, min(MAX_ROWS, MAX_CELLS // max(1, len(names))))
    if len(rows) > most:
        rows = np.sort(generator.choice(len(rows), most, replace=False))
    columns = {name: level_numbers(table, name, rows) for name in names}
    columns |= {name: np.where(filled[rows], 0.0, np.nan) for name, filled in texts.items()}
    fold = generator.permutation(len(rows)) % FOLDS
    coded = frozenset(texts).union(name for name in names if table.schema[name].levels is not None)
    times = frozenset(name for name in names if table.schema[name].kind == "datetime")
    return NumericSample(columns, y[rows], task, fold, len(rows) == table.n_rows, coded, times, frozenset(marked))


def level_numbers(table: Table, name: str, rows: Array | slice = slice(None)) -> Array:
    """Return numbers, codes of levels, or times in microseconds, of a column; NaN where null."""
    column = table.schema[name]
    values = table.column(name)[rows]
    if column.levels is not None:
        return np.where(values == NULL, np.nan, values)
    if column.kind == "datetime":
        return np.where(values == NAT, np.nan, values)
    numbers: Array = values.astype(np.float64)
    return numbers

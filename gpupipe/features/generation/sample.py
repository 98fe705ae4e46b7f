"""The sampled training rows of a selection: existing features, folds, and values of candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.features.generation.candidates import FeatureCandidate
from gpupipe.features.generation.short_model import MOST_NATIVE_CODES
from gpupipe.features.ops.arithmetic import center_jointly
from gpupipe.features.ops.group_stats import GroupMoments, learn_group, relate
from gpupipe.features.ops.target_encode import smoothed_means
from gpupipe.features.program.column_arithmetic import ColumnArithmetic
from gpupipe.features.program.compile import compile_program
from gpupipe.features.program.expressions import CategoryExpr, Expr, NumericExpr, code_values
from gpupipe.features.statistics.numbers import NumberStatistics
from gpupipe.features.statistics.training import TargetCounts
from gpupipe.table.blocks import Table
from gpupipe.table.holdout import held_out
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.features.program.target import Target
    from gpupipe.features.statistics.training import Statistics

FOLDS = 5
CONFIRMED_SHARE = 3  # one of 3 rows confirms what the others select
MOST_SCREENED_OUTPUTS = 10  # classes with residuals, the most frequent first
SMOOTHING = 20.0


@dataclass(frozen=True)
class SampleRows:
    """Some rows of a sample.

    `mask`: bool, shape (n_rows of the sample,), on the host; `on_device` is its copy on the device. `table` has the
    columns of these rows, and `codes` their categories: int64, on the host.
    """

    mask: Array
    on_device: Array
    table: Table
    codes: dict[str, Array]


class SelectionSample:
    """Sampled rows, of which some screen candidates and the others confirm them.

    - `columns`: all columns, as earlier ops left them; times and texts are ignored
    - `base`: existing features that are not in `columns`

    - `y` (array of float64, shape (n_rows,)): class codes, or standardized numbers
    - `fold` (array of int64, shape (n_rows,)): 0 for rows that confirm, 1 to `FOLDS` for rows that screen, at random.
      Rows that confirm are later or of other groups than those that screen if the target has times or groups.
    - `values` (dict of str to array of float32, shape (n_rows,)): of the numbers, on the device
    - `codes` (dict of str to array of int64, shape (n_rows,)): of the categories, on the host
    - `base` (array of float32, shape (n_rows, n_columns)): the existing features, on the host
    - `is_code`: whether each column of `base` contains category codes
    """

    def __init__(
        self,
        statistics: Statistics,
        columns: Sequence[Expr],
        base: Sequence[NumericExpr],
        most_rows: int,
        rng: np.random.Generator,
    ) -> None:
        assert statistics.target is not None
        self.backend, self.n_classes = statistics.backend, statistics.target.n_classes
        self.numbers = {column.name: column for column in columns if isinstance(column, NumericExpr)}
        self.categories = {column.name: column for column in columns if isinstance(column, CategoryExpr)}
        self.table, target = self._sample(statistics, most_rows, rng)
        y = target.values
        self.statistics = NumberStatistics(self.table, self.backend)
        scale = 0.0 if self.n_classes else float(y.std())
        self.y = y if self.n_classes else (y - y.mean()) / (scale or 1.0)
        place = rng.permutation(self.n_rows)
        self.fold = np.where(self._confirms(target, place, rng), 0, 1 + place % FOLDS)
        self.is_screened = self.fold > 0
        self.codes = self._codes(self.categories)
        self.values = dict(zip(self.numbers, self.compute(list(self.numbers.values())), strict=True))
        self.base, self.is_code = self._base(base)
        self._moments: dict[tuple[str, str], GroupMoments] = {}

    @property
    def n_rows(self) -> int:
        """Number of sampled rows."""
        return self.table.n_rows

    def _sample(self, statistics: Statistics, most_rows: int, rng: np.random.Generator) -> tuple[Table, Target]:
        """Return the sampled rows and their target, on the host; fewer rows if each has several residuals."""
        table, target = statistics.table, statistics.target
        assert isinstance(table, Table) and target is not None
        # Without texts: they are not combined, and each set of rows would copy them.
        table = table.select(table.schema.select([column.name for column in table.schema if column.storage]))
        n_outputs = min(target.n_classes, MOST_SCREENED_OUTPUTS) if target.n_classes > 2 else 1
        most = max(most_rows // n_outputs, min(most_rows, 10_000))
        y = np.asarray(self.backend.to_host(target.values), np.float64)
        if statistics.n_rows <= most:
            return table, replace(target, values=y)
        mask = np.zeros(statistics.n_rows, bool)
        mask[rng.choice(statistics.n_rows, most, replace=False)] = True
        groups, times = (None if column is None else column[mask] for column in (target.groups, target.times))
        return table.take(mask, self.backend), replace(target, values=y[mask], groups=groups, times=times)

    def _confirms(self, target: Target, place: Array, rng: np.random.Generator) -> Array:
        """Return the mask of the rows that confirm, given the places of the rows in random order."""
        at_random: Array = place < self.n_rows // CONFIRMED_SHARE
        groups = target.groups if target.groups is not None and len(np.unique(target.groups)) > 1 else None
        if groups is None and target.times is None:
            return at_random
        chosen = held_out(self.n_rows, 1.0 / CONFIRMED_SHARE, None, groups, target.times, rng)
        return chosen if 2 * chosen.sum() <= self.n_rows else at_random  # one group or time has most rows

    def rows(self, mask: Array) -> SampleRows:
        """Return the rows where `mask` (bool, shape (n_rows,), on the host) is true."""
        codes = {name: own[mask] for name, own in self.codes.items()}
        return SampleRows(mask, self.backend.to_device(mask), self.table.take(mask, self.backend), codes)

    def compute(self, columns: Sequence[NumericExpr], rows: SampleRows | None = None) -> Array:
        """Return values, float32, shape (n_columns, n_rows), of all rows or some, on the device."""
        table = self.table if rows is None else rows.table
        out = self.backend.empty_matrix(table.n_rows, len(columns))
        if columns:
            self.backend.run_program(compile_program(columns, table.places, folds=False), table.blocks, out)
        return out.T

    def _codes(self, columns: Mapping[str, CategoryExpr]) -> dict[str, Array]:
        """Return the codes of categories, int64, shape (n_rows,), on the host."""
        found = self.backend.to_host(self.compute(code_values(list(columns.values()))))
        return {name: codes.astype(np.int64) for name, codes in zip(columns, found, strict=True)}

    def _base(self, others: Sequence[NumericExpr]) -> tuple[Array, list[bool]]:
        """Return the existing features, float32, shape (n_rows, n_columns), and which of them are codes."""
        to_host = self.backend.to_host
        columns: list[Array] = [to_host(values) for values in (*self.values.values(), *self.compute(others))]
        is_code = [False] * len(columns)
        for name, codes in self.codes.items():
            n_codes = self.categories[name].n_codes
            if n_codes <= MOST_NATIVE_CODES:
                columns.append(codes.astype(np.float32))
                is_code.append(True)
            else:
                encoded = self.encode_target(codes, n_codes)
                columns += encoded
                is_code += [False] * len(encoded)
        return np.stack(columns, axis=1).astype(np.float32), is_code

    def encode_target(self, codes: Array, n_codes: int) -> list[Array]:
        """Return the smoothed mean target of the codes: of the other folds, or for rows that confirm, of all folds."""
        n_outputs = self.n_classes if self.n_classes > 2 else 1
        place = (self.fold - 1) * n_codes + codes
        place, y = place[self.is_screened], self.y[self.is_screened]
        shape = FOLDS, n_codes
        count = np.bincount(place, minlength=FOLDS * n_codes).reshape(shape)
        weights = [y == k for k in range(n_outputs)] if n_outputs > 1 else [y]
        total = np.stack([np.bincount(place, w, FOLDS * n_codes).reshape(shape) for w in weights], axis=2)
        return [
            table[self.fold, codes].astype(np.float32)
            for table in smoothed_means(TargetCounts(count, total), SMOOTHING)
        ]

    def combine(self, names: Sequence[str], codes: Mapping[str, Array] | None = None) -> tuple[Array, int]:
        """Return the combination of codes of each row, int64, and the number of possible combinations.

        `codes` are those of some rows; by default those of all rows.
        """
        codes = self.codes if codes is None else codes
        cells, size = np.zeros(len(codes[names[0]]), np.int64), 1
        for name in names:
            n = self.categories[name].n_codes
            cells, size = cells * n + codes[name], size * n
        return cells, size

    def frequencies(self, candidate: FeatureCandidate) -> Array:
        """Return the share of the rows that have the combination of each row, float32, on the host."""
        cells, size = self.combine(candidate.columns)
        shares: Array = (np.bincount(cells, minlength=size) / self.n_rows).astype(np.float32)[cells]
        return shares

    def compute_candidates(self, tile: Sequence[FeatureCandidate], rows: SampleRows | None = None) -> Array:
        """Return the values of arithmetic and group candidates; parameter and result as in `compute`."""
        return self.compute([self._expression(candidate) for candidate in tile], rows)

    def columns_of(self, candidate: FeatureCandidate) -> list[Array]:
        """Return the values of a candidate on the host; several columns for a target of several classes."""
        if candidate.family != "crosses":
            return [np.array(self.backend.to_host(self.compute_candidates([candidate]))[0])]
        if candidate.form == "frequency":
            return [self.frequencies(candidate)]
        found, cells = np.unique(self.combine(candidate.columns)[0], return_inverse=True)
        return self.encode_target(cells.reshape(-1), len(found))

    def _expression(self, candidate: FeatureCandidate) -> NumericExpr:
        if candidate.family == "arithmetic":
            return express_arithmetic(candidate, self.numbers, self.statistics)
        number, group = candidate.columns
        key = number, group
        if key not in self._moments:
            self._moments[key] = learn_group(self.numbers[number], self.categories[group], self.statistics)
        moments = self._moments[key]
        return relate(candidate.form, candidate.name, self.numbers[number], self.categories[group], moments)


def express_arithmetic(
    candidate: FeatureCandidate, numbers: Mapping[str, NumericExpr], statistics: NumberStatistics
) -> NumericExpr:
    """Return the expression of a formula of numbers."""
    name = candidate.name
    column = ColumnArithmetic(name, partial(center_jointly, statistics=statistics))  # type: ignore[arg-type]
    a, b = (numbers[name] for name in candidate.columns)
    forms = {"a + b": column.add, "a - b": column.subtract, "a * b": column.multiply, "a / b": column.divide}
    made = column.divide(b, a) if candidate.form == "b / a" else forms[candidate.form](a, b)
    assert isinstance(made, NumericExpr)
    return made

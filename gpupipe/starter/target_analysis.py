"""Analysis of a target: task, leaks and helpful columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.backends import choose
from gpupipe.errors import ConfigError
from gpupipe.model_parts.goal import Goal
from gpupipe.starter.columns import TableColumns
from gpupipe.starter.entities import Entity, find_entity
from gpupipe.starter.facts import ColumnFacts
from gpupipe.starter.leaks import find_leaks
from gpupipe.starter.power import (
    MAX_CODES,
    can_join,
    level_codes,
    level_means,
    out_of_fold,
    share_explained,
    smaller,
    strongest,
    targets_of,
    together,
)
from gpupipe.starter.sample import NumericSample, draw_sample
from gpupipe.starter.series import Series, comparable_targets, find_series, is_time
from gpupipe.starter.target import PositiveLabel, choose_positive, classes_in_numbers, find_target
from gpupipe.starter.useless_columns import are_integers
from gpupipe.training.preparation.target import TargetColumn, find_goal, known_rows, target_values
from gpupipe.typing import Array

MIN_LEVELS, MAX_LEVELS = 3, 250
MIN_ROWS_PER_LEVEL = 20
MAX_MODE_SHARE = 0.9  # a column with a larger share of one value, mostly 0, is an amount
MIN_GAIN = 0.01
MAX_STEPS = 8
MIN_SKEWNESS = 2.0
MIN_DISTINCT = 20  # of a long tail

MIN_ROWS = 100
MIN_NUMBERS = 1_000  # with fewer rows, measurements may all differ
MIN_UNIQUE = 0.995  # of the rows: a corrected row has the identifier of the first version
MAX_ROWS_PER_LEVEL = 10  # on average; with more rows per level, target encoding is reliable
# Threshold in standard deviations of the correlation of independent columns, which is 1 / √n_rows.
CHANCE = 3.0
NEIGHBORS = 20  # numbers are predicted from the mean of this many neighbors

KINDS_OF_TARGETS = "float", "categorical"  # among declared columns; the latter are codes


@dataclass(frozen=True)
class TargetAnalysis:
    """A target and the columns to predict it from.

    - `columns`: the columns, with leaks and uninformative ones dropped.
    - `positive`: binary only.
    - `rows` (array of int, shape (n_known,)): the rows with a target.
    - `counts`: for classification, the number of these rows by class.
    - `tails`: long-tailed columns, for log1p.
    - `sample`: the sample used for the analysis.
    - `leaks`: the dropped columns that restate the target, with the evidence.
    - `warnings`: columns that dominate a model, with the evidence.
    - `hints`: integers that may be categories, with the evidence.
    - `unchecked`: columns that may restate the target, but were not compared with a model.
    - `series`: the time to split by, if the target is a series.
    - `entity`: the key to split by, if the target is not a series.
    """

    columns: TableColumns
    goal: Goal
    positive: PositiveLabel | None
    rows: Any
    counts: Sequence[int]
    tails: Sequence[str]
    sample: NumericSample
    leaks: Mapping[str, str]
    warnings: Mapping[str, str]
    hints: Mapping[str, str]
    unchecked: Sequence[str]
    series: Series | None = None
    entity: Entity | None = None

    @property
    def inputs(self) -> list[str]:
        """The columns to predict from: not the target, and not the key to split by, of which later values are new."""
        return [name for name in self.columns.kept if name not in (self.goal.target, self.entity and self.entity.name)]

    @property
    def split_times(self) -> list[str]:
        """The datetime columns to divide the rows by, earliest first: no date that may be one of the outcome."""
        times = [name for name in self.sample.columns if name in self.sample.times and name not in self.warnings]
        return sorted(times, key=lambda name: float(np.nanmedian(self.sample.columns[name])))

    @property
    def n_known(self) -> int:
        """Number of rows with a target."""
        return len(self.rows)

    def labelled_levels(self, name: str) -> set[str]:
        """Return the texts of a column in the rows with a target."""
        known = self.columns.facts[name].values.take(pa.array(self.rows))
        return {str(text) for text in pc.unique(known).to_pylist()}


def analyse_target(columns: TableColumns, wanted: str) -> TargetAnalysis:
    """Return the task of a target, its leaks, and the columns to predict it from.

    Raise ConfigError if the column does not exist, or cannot be a target.
    """
    target = find_target(wanted, columns.facts, columns.source_table.has_header)
    columns = _with_target(columns, target)
    table, backend = columns.encoded(), choose("cpu")
    read = TargetColumn.of(table, target, backend)
    goal, positive = _goal(read, columns.facts[target])
    table, rows = known_rows(table, (read,), backend)
    y = target_values((read,), rows, goal, {target: [positive.label]} if positive else {})
    assert y is not None
    counts = np.bincount(y.astype(int), minlength=goal.n_classes).tolist() if goal.n_classes else []
    series = find_series(columns, table, target, y, goal.task)
    entity = None if series else find_entity(columns, table, target, comparable_targets(y, goal.task))
    keys = {entity.name} if entity else set()
    columns = columns.keep(keys)
    # Neighbors in time, and rows of one entity, have nearly the target of a row: the columns do not leak it.
    keys |= {name for name in columns.kept if series and is_time(columns, name)}
    texts = [name for name in columns.kept if columns.kind(name) == "text" and name not in columns.written_numbers()]
    filled = {name: columns.facts[name].values.take(pa.array(rows)).is_valid().to_numpy() for name in texts}
    sample = draw_sample(table, y, goal.task, target, filled, columns.sentinels).without(keys)
    report = find_leaks(sample, target, goal.labels)
    columns = columns.drop({name: f"leak: {evidence}" for name, evidence in report.leaks.items()})
    sample = sample.without([*report.leaks, *texts])
    times = [name for name in columns.kept if columns.kind(name) == "datetime"]
    uninformative = find_uninformative_columns(sample, columns.distinct_facts, target, times)
    columns = columns.drop(uninformative)
    sample = sample.without(uninformative)
    if not set(columns.kept) - {target, entity and entity.name}:
        raise ConfigError("no input column remains", where="--target", fix="choose another column")
    numbers = [name for name in sample.columns if columns.kind(name) == "numeric"]
    tails = find_long_tails(sample, [columns.facts[name] for name in numbers if name[:1] not in "!@"])  # selectors
    sizes = [columns.facts[name] for name in numbers if name not in tails]
    hints = find_categories(sample, sizes)
    return TargetAnalysis(
        columns=columns,
        goal=goal,
        positive=positive,
        rows=rows,
        counts=counts,
        tails=tails,
        sample=sample,
        leaks=report.leaks,
        warnings=report.warnings,
        hints=hints,
        unchecked=report.unchecked,
        series=series,
        entity=entity,
    )


def _with_target(columns: TableColumns, target: str) -> TableColumns:
    """Return the columns with the target kept, not declared datetime, and declared categorical if it has classes."""
    dropped = {name: reason for name, reason in columns.dropped.items() if name != target}
    declared = {
        name: found for name, found in columns.declared.items() if name != target or found.kind in KINDS_OF_TARGETS
    }
    classes = classes_in_numbers(columns.facts[target])
    return replace(columns, dropped=dropped, declared=declared).declare({target: classes} if classes else {})


def _goal(read: TargetColumn, target: ColumnFacts) -> tuple[Goal, PositiveLabel | None]:
    """Return the task as ``gpupipe run`` infers it, and for two classes the positive label."""
    goal = find_goal((read,), {}, ())
    if goal.task != "binary":
        return goal, None
    counts = {str(value): int(n) for value, n in zip(target.distinct.to_pylist(), target.counts, strict=True)}
    positive = choose_positive(goal.labels, counts)
    return find_goal((read,), {read.column.name: [positive.label]}, ()), positive


def find_doubtful_columns(sample: NumericSample, facts: Mapping[str, ColumnFacts], times: Collection[str]) -> list[str]:
    """Return the columns that may identify rows: texts with many levels, and unique integers."""

    def is_doubtful(name: str) -> bool:
        column = facts[name]
        if name in sample.coded:
            is_sparse = column.n_filled < MAX_ROWS_PER_LEVEL * column.n_distinct
            return column.holds == "text" and column.n_distinct > MAX_CODES and is_sparse
        is_number = column.holds in ("integer", "number") and name not in times
        is_unique = column.n_filled >= MIN_NUMBERS and column.n_distinct >= MIN_UNIQUE * column.n_filled
        return is_number and is_unique and are_integers(column)

    return [name for name in sample.columns if is_doubtful(name)]


def find_uninformative_columns(
    sample: NumericSample, facts: Mapping[str, ColumnFacts], target: str, times: Collection[str] = ()
) -> dict[str, str]:
    """Return the doubtful columns to drop, with the reason.

    The residual of a model of the other columns is predicted on held-out rows from the mean residual of rows with the
    same text or of the nearest numbers. A column is kept if this prediction correlates with the residual by more than
    chance. The columns in `times` are not doubtful numbers.
    """
    doubtful = find_doubtful_columns(sample, facts, times)
    if not doubtful or len(sample.y) < MIN_ROWS:
        return {}
    sample = smaller(sample)
    residual = _residual([name for name in sample.columns if name not in doubtful], sample)
    found = {}
    for name in doubtful:
        if _correlation(_prediction(name, residual, sample), residual) >= CHANCE / np.sqrt(len(residual)):
            continue
        what = f"{facts[name].n_distinct:,} distinct texts" if name in sample.coded else "unique numbers"
        found[name] = f"{what}, uninformative about {target} given the other columns"
    return found


def _residual(names: Sequence[str], sample: NumericSample) -> Array:
    names = strongest([name for name in names if can_join(name, sample)], sample)
    targets = targets_of(sample)
    return targets - (together(names, sample) if names else targets.mean(axis=0))


def _prediction(name: str, residual: Array, sample: NumericSample) -> Array:
    x = sample.columns[name]
    if name in sample.coded:
        return level_means(level_codes(x), residual, sample.fold)
    from sklearn.neighbors import KNeighborsRegressor

    ranks = level_codes(x).astype(np.float64)[:, None]
    return out_of_fold(KNeighborsRegressor(NEIGHBORS), ranks, residual, sample.fold)


def _correlation(predicted: Array, residual: Array) -> float:
    """Return the correlation of two arrays of the same shape, over all their columns."""
    a, b = predicted - predicted.mean(axis=0), residual - residual.mean(axis=0)
    size = np.sqrt(np.square(a).sum() * np.square(b).sum())
    return float((a * b).sum() / size) if size else 0.0


def find_categories(sample: NumericSample, integers: Sequence[ColumnFacts]) -> Mapping[str, str]:
    """Return the columns whose levels explain more of the target than their order does, with the evidence."""
    found = {}
    for column in integers:
        if _may_be_categories(column, sample):
            as_line, as_steps, as_levels = shares_explained(column.name, sample)
            by_order = max(0.0, as_line, as_steps)
            if as_levels - by_order >= MIN_GAIN:
                found[column.name] = (
                    f"as categories they explain {as_levels:.0%} of the target, as numbers {by_order:.0%}"
                )
    return found


def _may_be_categories(column: ColumnFacts, sample: NumericSample) -> bool:
    is_candidate = column.holds == "integer" and MIN_LEVELS <= column.n_distinct <= MAX_LEVELS
    has_rows = column.n_distinct * MIN_ROWS_PER_LEVEL <= len(sample.y)
    return is_candidate and has_rows and int(column.counts.max()) <= MAX_MODE_SHARE * column.n_filled


def shares_explained(name: str, sample: NumericSample) -> list[float]:
    """Return the shares of target variance that a column explains by a line, by a small tree, and by level means."""
    from sklearn.linear_model import LinearRegression
    from sklearn.tree import DecisionTreeRegressor

    x, targets = sample.columns[name], targets_of(sample)
    codes = level_codes(x)
    X = np.where(np.isnan(x), np.nanmean(x), x)[:, None]
    steps = DecisionTreeRegressor(max_leaf_nodes=MAX_STEPS, random_state=0)
    predicted = [out_of_fold(model, X, targets, sample.fold) for model in (LinearRegression(), steps)]
    predicted.append(level_means(codes, targets, sample.fold))
    return [share_explained(targets, each) for each in predicted]


def find_long_tails(sample: NumericSample, numbers: Sequence[ColumnFacts]) -> list[str]:
    """Return the long-tailed columns, if their logarithms improve a linear model of all numbers on held-out rows.

    Long-tailed columns are non-negative and skewed, with at most half the skewness after log1p.
    """
    columns = {column.name: _filled(sample.columns[column.name]) for column in numbers}
    tails = [
        column.name
        for column in numbers
        if column.n_distinct >= MIN_DISTINCT and column.range[0] >= 0 and _has_long_tail(columns[column.name])
    ]
    logs = {name: np.log1p(columns[name]) for name in tails}
    return tails if tails and _linear_fit(columns | logs, sample) > _linear_fit(columns, sample) else []


def _filled(x: Array) -> Array:
    """Return a column with nulls imputed by the median."""
    known = ~np.isnan(x)
    return np.where(known, x, np.median(x[known]) if known.any() else 0.0)


def _linear_fit(columns: Mapping[str, Array], sample: NumericSample) -> float:
    """Return the share of target variance that a ridge regression on standardized columns explains."""
    from sklearn.linear_model import Ridge

    X, targets = np.stack(list(columns.values()), axis=1), targets_of(sample)
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    return share_explained(targets, out_of_fold(Ridge(), X, targets, sample.fold))


def _has_long_tail(x: Array) -> bool:
    x = x[~np.isnan(x)]
    skewness = _skewness(x)
    return skewness > MIN_SKEWNESS and abs(_skewness(np.log1p(x))) < skewness / 2


def _skewness(x: Array) -> float:
    if len(x) == 0 or x.std() == 0:
        return 0.0
    return float(np.mean(((x - x.mean()) / x.std()) ** 3))

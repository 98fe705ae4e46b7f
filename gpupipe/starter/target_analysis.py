"""Analysis of a target: task, leaks and helpful columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from gpupipe.starter.numbers import find_categories, find_long_tails
from gpupipe.starter.sample import NumericSample, draw_sample
from gpupipe.starter.series import Series, comparable_targets, find_series, is_time
from gpupipe.starter.target import PositiveLabel, choose_positive, classes_in_numbers, find_target
from gpupipe.starter.uninformative_columns import find_uninformative_columns
from gpupipe.training.preparation.target import TargetColumn, find_goal, known_rows, target_values

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
    sample = draw_sample(table, y, goal.task, target, filled).without(keys)
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

"""Target columns: inference of the task, and conversion of their values to numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.errors import ConfigError, DataError, SchemaError
from gpupipe.io.notes import UNBOUNDED, reasons_of_nulls
from gpupipe.model_parts.goal import Goal, label_text, output_of_target
from gpupipe.models import ModelSettings
from gpupipe.names import count_noun
from gpupipe.settings import Label
from gpupipe.table.blocks import EncodedTable
from gpupipe.table.schema import FIRST_LEVEL, RAW_KINDS, Column
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task
from gpupipe.training.preparation.class_labels import ClassLabels, names_label
from gpupipe.typing import Array

MOST_LISTED = 10  # target values listed in a message
MOST_RELEVANT = 30  # the last one that LightGBM has a gain for; XGBoost has one more
WORD_FIX, UNBOUNDED_FIX = "write it as another text, such as 'none' for 'None'", "scale the numbers to less than 4e37"
SingleTask = Literal["regression", "binary", "multiclass"]
Positives = Mapping[str, Sequence[Label]]
"""Labels of the positive class, by target."""

TableT = TypeVar("TableT", bound=EncodedTable)


@dataclass(frozen=True)
class TargetColumn:
    """Target column as read."""

    column: Column
    # ndarray, shape (n_rows,): codes or numbers, on the host, where tasks, splits and metrics are computed
    values: Array
    is_untyped: bool = False  # whether the table is CSV, which has no types
    reasons: tuple[str, ...] = ()  # why values are missing, other than nulls: texts that mean so, and infinite numbers

    @classmethod
    def all_of(
        cls,
        table: EncodedTable,
        names: Sequence[str],
        backend: Backend,
        is_untyped: bool = False,
        notes: Sequence[str] = (),
    ) -> tuple[TargetColumn, ...]:
        """Return the columns with these names; arguments and errors as in `of`."""
        return tuple(cls.of(table, name, backend, is_untyped, notes) for name in names)

    @classmethod
    def of(
        cls, table: EncodedTable, name: str, backend: Backend, is_untyped: bool = False, notes: Sequence[str] = ()
    ) -> TargetColumn:
        """Return the column `name`; `notes` are those of the reader.

        Raise SchemaError if the table lacks the column, or its kind cannot be a target.
        """
        column = table.schema[name]
        if column.kind in ("datetime", *RAW_KINDS):
            raise SchemaError(
                f"expected a categorical, boolean or numeric target; {name!r} is {column.kind}",
                fix=f"declare it: schema: {{{name}: categorical}}",
                names=[name],
            )
        reasons = tuple(reasons_of_nulls(notes, name))
        return cls(column, backend.to_host(table.column(name)), is_untyped, reasons)

    @property
    def fix(self) -> str:
        """Advice on the values that are missing for `reasons`."""
        fixes = [UNBOUNDED_FIX if reason == UNBOUNDED else WORD_FIX for reason in self.reasons]
        return "; ".join(dict.fromkeys(fixes))

    def describe_nulls(self) -> str:
        """Return the number of rows without a value, with the reasons, for messages; empty without reasons."""
        if not self.reasons:
            return ""
        n_rows = int(np.count_nonzero(~all_known([self])))
        return f"; {n_rows:,} {'row has' if n_rows == 1 else 'rows have'} no value ({'; '.join(self.reasons)})"

    @cached_property
    def of_levels(self) -> ClassLabels:
        """The label of each level of a column that has levels."""
        return ClassLabels.of_levels(self.column, self.is_untyped)

    @cached_property
    def labels(self) -> ClassLabels:
        """The values of the target in this table: numbers ascending, texts in the order of the levels."""
        if self.column.levels is None:
            return ClassLabels.of_numbers(self.column, np.unique(self.values[~np.isnan(self.values)]).tolist())
        counts = np.bincount(self.values, minlength=self.column.n_codes)[FIRST_LEVEL:].tolist()
        found = [label for label, n in zip(self.of_levels.labels, counts, strict=True) if n]
        is_text = any(isinstance(label, str) for label in found)
        return replace(self.of_levels, labels=tuple(found if is_text else sorted(found)))


def find_goal(
    targets: Sequence[TargetColumn],
    positives: Positives,
    models: Sequence[ModelSettings],
    quantiles: tuple[float, ...] = (),
    task: Literal["quantile", "ranking"] | None = None,
) -> Goal:
    """Infer the task from the targets, or from the models without a target; quantile if `quantiles` are given.

    `task` is the value of ``source.task``; it is needed for a ranking only.

    Raise DataError if a target has no value, or a single one; SchemaError if the target of a ranking is not a
    relevance; ConfigError if the positive label is not a value of the target, the models have no common task, the
    target of quantiles is not a number, or several targets are neither all numbers nor all of classes.
    """
    if not targets:
        return _without_target(models)
    if len(targets) > 1:
        return _several(targets, positives)
    if task == "ranking":
        return _ranking(targets[0])
    return _single(targets[0], positives.get(targets[0].column.name, ()), quantiles)


def _several(targets: Sequence[TargetColumn], positives: Positives) -> Goal:
    known = all_known(targets)
    if not known.any():
        missing = [
            f"{target.column.name!r} in {count_noun(int((~all_known([target])).sum()), 'row')}" for target in targets
        ]
        raise DataError(
            f"no row has a value of every target; missing: {', '.join(missing)}",
            where="source.target",
            fix="predict them in separate runs",
            names=[target.column.name for target in targets],
        )
    with_all = [replace(target, values=target.values[known]) for target in targets]
    goals = [_single(target, positives.get(target.column.name, ())) for target in with_all]
    numbers = [goal for goal in goals if goal.task in REGRESSION]
    if numbers and len(numbers) < len(goals):
        kinds = "; ".join(goal.note for goal in goals)  # two whole numbers are classes
        raise ConfigError(
            f"several targets must be all numbers, or all have classes ({kinds})",
            where="source.target",
            fix="predict them in separate runs, or declare a number as categorical in source.schema",
            names=[goal.target or "" for goal in goals],
        )
    _require_distinct_outputs(goals)
    kinds = "numbers" if numbers else "targets with classes"
    note = f"multioutput: {len(goals)} {kinds}; {'; '.join(goal.note for goal in goals)}"
    return Goal("multioutput", None, (), note, targets=tuple(goals))


def _require_distinct_outputs(goals: Sequence[Goal]) -> None:
    """Raise ConfigError if columns of the predictions would have the same name."""
    found: dict[str, str] = {}
    for goal in goals:
        for label in goal.label_texts:
            name = output_of_target(f"probability_{label}", goal)
            if name in found:
                raise ConfigError(
                    f"the targets {found[name]!r} and {goal.target!r} would both have the output {name!r}",
                    where="source.target",
                    fix="rename one of them",
                    names=[found[name], goal.target or ""],
                )
            found[name] = goal.target or ""


def _single(target: TargetColumn, positives: Sequence[Label], quantiles: tuple[float, ...] = ()) -> Goal:
    goal = _inferred(target, positives, quantiles)
    return replace(goal, note=goal.note + target.describe_nulls())


def _inferred(target: TargetColumn, positives: Sequence[Label], quantiles: tuple[float, ...]) -> Goal:
    name = target.column.name
    _require_values(target, positives)
    if quantiles:
        return _quantile(target, quantiles)
    if positives:
        return _binary(name, positives, target.labels)
    return infer_goal(target)


def infer_goal(target: TargetColumn, task: SingleTask | None = None) -> Goal:
    """Return the goal of a target: levels and two whole numbers are classes, other numbers are predicted.

    Raise ConfigError if the values contradict `task`.

    `task` ({"regression", "binary", "multiclass"}): the task, if it is stated: then more numbers may be classes, and
    two whole ones need not be.
    """
    name, has_levels = target.column.name, target.column.levels is not None
    if task == "regression" and has_levels:
        what = f"task: regression needs a numeric target; {name!r} is {target.column.kind}"
        raise ConfigError(what, fix="pass numbers, or remove task", names=[name])
    if task == "regression" or (task is None and not has_levels and not _are_two_whole_numbers(target.values)):
        return Goal("regression", name, (), f"regression: {name} is a number")
    labels, kind = target.labels.labels, target.labels.kind
    if task == "binary" and len(labels) > 2:
        what = f"task: binary needs a target of 2 classes; {name!r} has {len(labels):,}"
        raise ConfigError(what, fix="use task: multiclass, or group the classes", names=[name])
    if len(labels) == 2:
        note = f"binary: {name} is {labels[1]!r} (positive) or {labels[0]!r}"
        return Goal("binary", name, labels, note, label_type=kind)
    return Goal("multiclass", name, labels, f"multiclass: {name} has {len(labels)} classes", label_type=kind)


def _are_two_whole_numbers(values: Array) -> bool:
    values = values[~np.isnan(values)]
    if len(np.unique(values[:10_000])) > 2:
        return False
    found = np.unique(values)
    return len(found) == 2 and bool((found == np.rint(found)).all())


def _quantile(target: TargetColumn, quantiles: tuple[float, ...]) -> Goal:
    name = target.column.name
    if target.column.levels is not None:
        raise ConfigError(
            f"task: quantile needs a numeric target; {name!r} is {target.column.kind}",
            where="source.task",
            fix="choose another target, or remove task",
            names=[name],
        )
    levels = ", ".join(f"{level:g}" for level in quantiles)
    return Goal("quantile", name, (), f"quantile: the quantiles {levels} of {name}", quantiles)


def _ranking(target: TargetColumn) -> Goal:
    name, column = target.column.name, target.column
    _require_values(target, ())
    if column.levels is not None and column.kind != "boolean":
        raise _not_a_relevance(name, f"is {column.kind}")
    values = [] if column.levels is not None else [float(value) for value in target.labels.labels]
    if unfit := [value for value in values if not (0 <= value <= MOST_RELEVANT and value.is_integer())]:
        raise _not_a_relevance(name, f"has the value {unfit[0]:g}")
    return Goal("ranking", name, (), f"ranking: {name} is the relevance of a row in its group")


def _not_a_relevance(name: str, what: str) -> SchemaError:
    return SchemaError(
        f"expected a relevance, an integer from 0 to {MOST_RELEVANT}; {name!r} {what}",
        where="source.target",
        fix="choose another target, or make one with source.prepare, such as 3 to 0 for the quartiles of a group",
        names=[name],
    )


def _require_values(target: TargetColumn, positives: Sequence[Label]) -> None:
    """Raise DataError unless the target has two values; a positive label that is the only value has its own error."""
    name, found = target.column.name, target.labels.labels if target.column.levels is not None else _bounds(target)
    if not found:
        what = f"the target {name!r} is null in every row{target.describe_nulls()}"
        fix = target.fix or "choose another column"
        raise DataError(what, fix=fix, names=[name])
    if len(found) == 1 and not positives:
        raise DataError(
            f"expected at least two values of the target {name!r}, found only {found[0]!r}{target.describe_nulls()}",
            fix=_other_value(target, found[0]),
            names=[name],
        )


def _other_value(target: TargetColumn, found: Any) -> str:
    """Return what to do about a target with a single value."""
    if target.column.levels is None and abs(found) >= 2**53:
        return f"declare it, which keeps every digit of its values: schema: {{{target.column.name}: categorical}}"
    return target.fix or "choose another column, or check the filter source.where"


def _bounds(target: TargetColumn) -> tuple[int | float, ...]:
    """Return the minimum and maximum of the target, one number if they are equal, or () if all values are null."""
    known = target.values[~np.isnan(target.values)]
    if not len(known):
        return ()
    low, high = known.min(), known.max()
    return (_plain(low),) if low == high else (_plain(low), _plain(high))


def _without_target(models: Sequence[ModelSettings]) -> Goal:
    common = frozenset[Task]({"clustering", "embedding"}).intersection(*(type(m).tasks for m in models))
    if not models or not common:
        raise ConfigError(
            "the models need a target, and source.target is not set",
            where="source.target",
            fix="set the column to predict, or use models without a target: kmeans, pca",
        )
    task: Task = "clustering" if "clustering" in common else "embedding"
    return Goal(task, None, (), f"{task}: no target")


def _plain(value: Any) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


def _binary(target: str, positives: Sequence[Label], found: ClassLabels) -> Goal:
    labels, wanted = found.labels, {label_text(given) for given in positives}
    absent = {label_text(given) for given in positives if not any(names_label(given, label) for label in labels)}
    others = [label for label in labels if not _is_one_of(label, positives)]
    if absent or not others:
        listed = ", ".join(map(str, labels[:MOST_LISTED]))
        if len(labels) > MOST_LISTED:
            listed += f" and {count_noun(len(labels) - MOST_LISTED, 'other')}; for numbers, remove source.positive"
        raise ConfigError(
            f"the positive label {', '.join(sorted(absent or wanted))!r} is "
            + (f"not a value of {target!r}" if absent else f"the only value of {target!r}"),
            where="source.positive",
            fix=f"its values are {listed}",
            names=[target, *sorted(absent or wanted)],
        )
    positive = next(label for label in labels if _is_one_of(label, positives))
    note = f"binary: {target} is {positive!r} (positive) or {others[0]!r}"
    if len(others) > 1 or len(wanted) > 1:
        note = f"binary: {target} is one of {sorted(wanted)} (positive) or one of {sorted(map(str, others))}"
    return Goal("binary", target, (others[0], positive), note, label_type=found.kind)


def _is_one_of(label: Any, positives: Sequence[Label]) -> bool:
    return any(names_label(given, label) for given in positives)


def known_rows(table: TableT, targets: Sequence[TargetColumn], backend: Backend) -> tuple[TableT, Array]:
    """Return the rows in which no target is null, and their positions in `table` (int32, or int64 if too many)."""
    index = np.int32 if table.n_rows < 2**31 else np.int64
    if not targets:
        return table, np.arange(table.n_rows, dtype=index)
    known = all_known(targets)
    rows = np.flatnonzero(known).astype(index)
    return (table, rows) if len(rows) == table.n_rows else (table.take(known, backend), rows)


def all_known(targets: Sequence[TargetColumn]) -> Array:
    """Return the mask of the rows in which no target is null."""
    each = [~np.isnan(own.values) if own.values.dtype.kind == "f" else own.values >= FIRST_LEVEL for own in targets]
    known: Array = np.logical_and.reduce(each)
    return known


def target_values(targets: Sequence[TargetColumn], rows: Array, goal: Goal, positives: Positives) -> Array | None:
    """Return the targets of `rows`, float64: class codes 0..k-1 or numbers; None without one.

    Their shape is (len(rows),), or (len(rows), n_targets) for several targets, column-major.
    """
    if not targets:
        return None
    columns = [
        _values(target, rows, own, positives.get(target.column.name, ()))
        for target, own in zip(targets, goal.each, strict=True)
    ]
    return np.stack(columns).T if goal.targets else columns[0]


def _values(target: TargetColumn, rows: Array, goal: Goal, positives: Sequence[Label]) -> Array:
    column = target.column
    values = target.values if len(rows) == len(target.values) else target.values[rows]
    if goal.task == "ranking" and column.levels is not None:
        return (values - FIRST_LEVEL).astype(np.float64)  # False is the first level
    if goal.task not in CLASSIFICATION:
        return values.astype(np.float64)
    position = {label: i for i, label in enumerate(goal.labels)}

    def class_of(label: Any) -> float:
        return float(_is_one_of(label, positives) if positives else position.get(label, 0))

    if column.levels is None:
        found = np.unique(values)
        codes = [class_of(_plain(v)) for v in found]
        return np.array(codes, np.float64)[np.searchsorted(found, values)]
    lookup = np.zeros(column.n_codes)
    lookup[FIRST_LEVEL:] = [class_of(label) for label in target.of_levels.labels]
    return lookup[values]

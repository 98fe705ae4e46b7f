"""The target column: which task it asks for, and its values as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.errors import ConfigError, DataError, SchemaError
from gpupipe.models import ModelSettings
from gpupipe.settings import Label
from gpupipe.table.blocks import EncodedTable
from gpupipe.table.schema import FIRST_LEVEL, Column
from gpupipe.tasks import CLASSIFICATION, Task
from gpupipe.typing import Array

MOST_LISTED = 10  # values of a target in a message


@dataclass(frozen=True)
class Goal:
    """What is to be learned.

    Attributes
    ----------
    task : Task
    target : str, optional
        The target column; None for clustering and embedding.
    labels : tuple
        Classification only: the label of each class code. Binary: (negative, positive).
    note : str
        How the task was found, for the log.
    """

    task: Task
    target: str | None = None
    labels: tuple[Any, ...] = ()
    note: str = ""

    def __repr__(self) -> str:
        labels = ", ".join(map(repr, self.labels[:6])) + (
            f", … {len(self.labels):,} in all" if len(self.labels) > 6 else ""
        )
        return f"Goal({self.task}, target={self.target!r}, labels=({labels}))"

    @property
    def n_classes(self) -> int:
        """Classes of the target; 0 where it has none."""
        return len(self.labels) if self.task in CLASSIFICATION else 0


TableT = TypeVar("TableT", bound=EncodedTable)


@dataclass(frozen=True)
class TargetColumn:
    """The target as it was read.

    Attributes
    ----------
    column : Column
    values : ndarray, shape (n_rows,)
        Its codes or numbers, on the host: tasks, splits and metrics are made of them there.
    """

    column: Column
    values: Array

    @classmethod
    def of(cls, table: EncodedTable, name: str | None, backend: Backend) -> TargetColumn | None:
        """Return the column called `name`, None without a name.

        Raises
        ------
        SchemaError
            If there is no such column, or it cannot be a target.
        """
        if name is None:
            return None
        column = table.schema[name]
        if column.kind in ("datetime", "text"):
            raise SchemaError(
                f"the target {name!r} is {column.kind}: it can be a category, a boolean or a number",
                fix=f"declare it: schema: {{{name}: categorical}}",
                names=[name],
            )
        return cls(column, backend.to_host(table.column(name)))


def find_goal(target: TargetColumn | None, positives: Sequence[Label], models: Sequence[ModelSettings]) -> Goal:
    """Infer the task from the target, or from the models where there is none.

    Raises
    ------
    DataError
        If the target has no value, or a single one.
    ConfigError
        If the positive label is not among the target's, or the models learn no common task.
    """
    if target is None:
        return _without_target(models)
    name = target.column.name
    _require_values(target, positives)
    if positives:
        return _binary(name, positives, _labels(target))
    if target.column.levels is not None:
        labels = _labels(target)
        if len(labels) == 2:
            note = f"binary: {name} is {labels[1]!r} (positive) or {labels[0]!r}"
            return Goal("binary", name, labels, note)
        return Goal("multiclass", name, labels, f"multiclass: {name} has {len(labels)} classes")
    values = target.values
    found = np.unique(values[~np.isnan(values)][:10_000])
    if len(found) <= 2 and len(np.unique(values[~np.isnan(values)])) == 2:
        low, high = (_plain(v) for v in found)
        return Goal("binary", name, (low, high), f"binary: {name} is {high} (positive) or {low}")
    return Goal("regression", name, (), f"regression: {name} is a number")


def _require_values(target: TargetColumn, positives: Sequence[Label]) -> None:
    """Raise DataError unless there is something to learn; a positive label that is all there is has its own error."""
    name, found = target.column.name, _labels(target) if target.column.levels is not None else _bounds(target)
    if not found:
        raise DataError(
            f"the target {name!r} has no value: it is null in every row", fix="choose another column", names=[name]
        )
    if len(found) == 1 and not positives:
        raise DataError(
            f"the target {name!r} has the single value {found[0]!r}",
            fix="there is nothing to learn: choose another column, or check source.where",
            names=[name],
        )


def _bounds(target: TargetColumn) -> tuple[int | float, ...]:
    """Return the least and the greatest number of the target, once where they are one; nothing where all is null."""
    known = target.values[~np.isnan(target.values)]
    if not len(known):
        return ()
    low, high = known.min(), known.max()
    return (_plain(low),) if low == high else (_plain(low), _plain(high))


def unseen_labels(goal: Goal, y: Array | None, train: Array, test: Array) -> tuple[Any, ...]:
    """Return the classes with rows among those to test on and none among those to train on: masks of the rows."""
    if y is None or not goal.labels:
        return ()
    seen, asked = (np.unique(y[mask]).astype(np.intp) for mask in (train, test))
    return tuple(goal.labels[code] for code in np.setdiff1d(asked, seen))


def _without_target(models: Sequence[ModelSettings]) -> Goal:
    common = frozenset[Task]({"clustering", "embedding"}).intersection(*(type(m).tasks for m in models))
    if not models or not common:
        raise ConfigError(
            "there is no target, and the models need one",
            where="source.target",
            fix="name the column to predict, or choose kmeans or pca",
        )
    task: Task = "clustering" if "clustering" in common else "embedding"
    return Goal(task, None, (), f"{task}: there is no target")


def _labels(target: TargetColumn) -> tuple[Any, ...]:
    """Return the values that the target has in this table, in order."""
    column, values = target.column, target.values
    if column.levels is None:
        return tuple(_plain(v) for v in np.unique(values[~np.isnan(values)]))
    counts = np.bincount(values, minlength=column.n_codes)[FIRST_LEVEL:]
    return tuple(level for level, n in zip(column.levels, counts.tolist(), strict=True) if n)


def _plain(value: Any) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


def _binary(target: str, positives: Sequence[Label], labels: tuple[Any, ...]) -> Goal:
    wanted = {_text(p) for p in positives}
    absent = wanted - {_text(label) for label in labels}
    others = [label for label in labels if _text(label) not in wanted]
    if absent or not others:
        listed = ", ".join(map(str, labels[:MOST_LISTED]))
        if len(labels) > MOST_LISTED:
            listed += f" and {len(labels) - MOST_LISTED:,} others; to predict a number, remove source.positive"
        raise ConfigError(
            f"the positive label {', '.join(sorted(absent or wanted))!r} is "
            + (f"not a value of {target!r}" if absent else f"the only value of {target!r}"),
            where="source.positive",
            fix=f"its values are {listed}",
            names=[target, *sorted(absent or wanted)],
        )
    positive = next(label for label in labels if _text(label) in wanted)
    note = f"binary: {target} is {positive!r} (positive) or {others[0]!r}"
    if len(others) > 1 or len(wanted) > 1:
        note = f"binary: {target} is one of {sorted(wanted)} (positive) or one of {sorted(map(str, others))}"
    return Goal("binary", target, (others[0], positive), note)


def _text(label: Any) -> str:
    if isinstance(label, bool):
        return str(label).lower()
    return str(_plain(label)) if isinstance(label, (int, float)) else str(label)


def known_rows(table: TableT, target: TargetColumn | None, backend: Backend) -> tuple[TableT, Array]:
    """Return the rows whose target is known, and which rows of `table` they are (int32; int64 if there are many)."""
    index = np.int32 if table.n_rows < 2**31 else np.int64
    if target is None:
        return table, np.arange(table.n_rows, dtype=index)
    values = target.values
    known = ~np.isnan(values) if values.dtype.kind == "f" else values >= FIRST_LEVEL
    rows = np.flatnonzero(known).astype(index)
    return (table, rows) if len(rows) == table.n_rows else (table.take(known, backend), rows)


def target_values(target: TargetColumn | None, rows: Array, goal: Goal, positives: Sequence[Label]) -> Array | None:
    """Return the target of some rows, float64, shape (len(rows),): class codes 0..k-1, or numbers; None without one."""
    if target is None:
        return None
    column = target.column
    values = target.values if len(rows) == len(target.values) else target.values[rows]
    if goal.task == "regression":
        return values.astype(np.float64)
    wanted = {_text(p) for p in positives} or None
    if column.levels is None:
        found = np.unique(values)
        codes = [_class_of(_plain(v), goal, wanted) for v in found]
        return np.array(codes, np.float64)[np.searchsorted(found, values)]
    lookup = np.zeros(column.n_codes)
    for i, level in enumerate(column.levels):
        lookup[FIRST_LEVEL + i] = _class_of(level, goal, wanted)
    return lookup[values]


def _class_of(label: Any, goal: Goal, wanted: set[str] | None) -> float:
    if wanted is not None:
        return float(_text(label) in wanted)
    return float(goal.labels.index(label)) if label in goal.labels else 0.0

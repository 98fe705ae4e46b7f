"""Target column: inference of the task, and conversion of its values to numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from gpupipe.typing import Array, ArrayNamespace

MOST_LISTED = 10  # target values listed in a message


@dataclass(frozen=True)
class Goal:
    """Task of a run, with its target.

    Attributes
    ----------
    task : Task
    target : str, optional
        The target column; None for clustering and embeddings.
    labels : tuple
        Label of each class code, for classification. Binary: (negative, positive).
    note : str
        How the task was inferred, for the log.
    quantiles : tuple of float
        Levels of the quantiles to predict, ascending, for the task quantile.
    """

    task: Task
    target: str | None = None
    labels: tuple[Any, ...] = ()
    note: str = ""
    quantiles: tuple[float, ...] = ()

    def __repr__(self) -> str:
        labels = ", ".join(map(repr, self.labels[:6])) + (
            f", … {len(self.labels):,} in total" if len(self.labels) > 6 else ""
        )
        return f"Goal({self.task}, target={self.target!r}, labels=({labels}))"

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 unless the task is classification."""
        return len(self.labels) if self.task in CLASSIFICATION else 0

    @property
    def quantile_names(self) -> tuple[str, ...]:
        """Names of the predicted quantiles in outputs: ``quantile_0.1``."""
        return tuple(f"quantile_{level:.12g}" for level in self.quantiles)


TableT = TypeVar("TableT", bound=EncodedTable)


@dataclass(frozen=True)
class Truth:
    """True values of some rows, which predictions are compared with.

    Attributes
    ----------
    y : array of float64, shape (n,)
        Class codes or numbers.
    weights : array of float64, shape (n,), optional
        The weight of each row; None if all rows weigh 1.
    """

    y: Array
    weights: Array | None = None

    def __len__(self) -> int:
        return len(self.y)

    def mapped(self, function: Callable[[Array], Array]) -> Truth:
        """Return the results of `function` for both arrays."""
        return Truth(function(self.y), None if self.weights is None else function(self.weights))

    def take(self, rows: Array) -> Truth:
        """Return some of the rows, given as a mask or as row numbers."""
        return self.mapped(lambda array: array[rows])

    @staticmethod
    def join(parts: Sequence[Truth], xp: ArrayNamespace) -> Truth:
        """Return sets of rows as one."""
        weights = [part.weights for part in parts if part.weights is not None]
        return Truth(xp.concatenate([part.y for part in parts]), xp.concatenate(weights) if weights else None)


@dataclass(frozen=True)
class TargetColumn:
    """Target column as read.

    Attributes
    ----------
    column : Column
    values : ndarray, shape (n_rows,)
        Codes or numbers, on the host, where tasks, splits and metrics are computed.
    """

    column: Column
    values: Array

    @classmethod
    def of(cls, table: EncodedTable, name: str | None, backend: Backend) -> TargetColumn | None:
        """Return the column `name`, or None without a name.

        Raises
        ------
        SchemaError
            If there is no such column, or its kind cannot be a target.
        """
        if name is None:
            return None
        column = table.schema[name]
        if column.kind in ("datetime", "text"):
            raise SchemaError(
                f"expected a categorical, boolean or numeric target; {name!r} is {column.kind}",
                fix=f"declare it: schema: {{{name}: categorical}}",
                names=[name],
            )
        return cls(column, backend.to_host(table.column(name)))


def find_goal(
    target: TargetColumn | None,
    positives: Sequence[Label],
    models: Sequence[ModelSettings],
    quantiles: tuple[float, ...] = (),
) -> Goal:
    """Infer the task from the target, or from the models without a target; quantile if `quantiles` are given.

    Raises
    ------
    DataError
        If the target has no value, or a single one.
    ConfigError
        If the positive label is not a value of the target, the models have no common task, or the target of
        quantiles is not a number.
    """
    if target is None:
        return _without_target(models)
    name = target.column.name
    _require_values(target, positives)
    if quantiles:
        return _quantile(target, quantiles)
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


def _require_values(target: TargetColumn, positives: Sequence[Label]) -> None:
    """Raise DataError unless the target has two values; a positive label that is the only value has its own error."""
    name, found = target.column.name, _labels(target) if target.column.levels is not None else _bounds(target)
    if not found:
        raise DataError(f"the target {name!r} is null in every row", fix="choose another column", names=[name])
    if len(found) == 1 and not positives:
        raise DataError(
            f"expected at least two values of the target {name!r}, found only {found[0]!r}",
            fix="choose another column, or check the filter source.where",
            names=[name],
        )


def _bounds(target: TargetColumn) -> tuple[int | float, ...]:
    """Return the minimum and maximum of the target, one number if they are equal, or () if all values are null."""
    known = target.values[~np.isnan(target.values)]
    if not len(known):
        return ()
    low, high = known.min(), known.max()
    return (_plain(low),) if low == high else (_plain(low), _plain(high))


def unseen_labels(goal: Goal, y: Array | None, train: Array, test: Array) -> tuple[Any, ...]:
    """Return the classes that occur in the test rows but not in the training rows, given as masks."""
    if y is None or not goal.labels:
        return ()
    seen, asked = (np.unique(y[mask]).astype(np.intp) for mask in (train, test))
    return tuple(goal.labels[code] for code in np.setdiff1d(asked, seen))


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


def _labels(target: TargetColumn) -> tuple[Any, ...]:
    """Return the values of the target in this table, in order."""
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
    """Return the rows whose target is not null, and their positions in `table` (int32, or int64 if too many)."""
    index = np.int32 if table.n_rows < 2**31 else np.int64
    if target is None:
        return table, np.arange(table.n_rows, dtype=index)
    values = target.values
    known = ~np.isnan(values) if values.dtype.kind == "f" else values >= FIRST_LEVEL
    rows = np.flatnonzero(known).astype(index)
    return (table, rows) if len(rows) == table.n_rows else (table.take(known, backend), rows)


def target_values(target: TargetColumn | None, rows: Array, goal: Goal, positives: Sequence[Label]) -> Array | None:
    """Return the target of `rows`, float64, shape (len(rows),): class codes 0..k-1 or numbers; None without one."""
    if target is None:
        return None
    column = target.column
    values = target.values if len(rows) == len(target.values) else target.values[rows]
    if goal.task not in CLASSIFICATION:
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

"""Goal of a run: its task and targets; and true values of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from gpupipe.tasks import CLASSIFICATION, TargetSpec, Task
from gpupipe.typing import Array, ArrayNamespace

LABEL_TYPES = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64")  # of classes, other than the default
LEAST_IN_STRATUM = 10  # rows, so that training, validation and test rows get some


@dataclass(frozen=True)
class Goal:
    """Task of a run, with its target."""

    task: Task
    target: str | None = None  # the target column; None for clustering and embeddings, and for several targets
    labels: tuple[Any, ...] = ()  # label of each class code, for classification. Binary: (negative, positive).
    note: str = ""  # how the task was inferred, for the log
    quantiles: tuple[float, ...] = ()  # levels of the quantiles to predict, ascending, for the task quantile
    # The goal of each target, for the task multioutput: all are regressions, or all classifications.
    targets: tuple[Goal, ...] = ()
    # The Arrow type of the labels in predictions, such as ``"uint8"`` or ``"decimal128(38, 0)"``; ``""`` for bool,
    # int64, double or string, according to the labels.
    label_type: str = ""

    def __repr__(self) -> str:
        if self.targets:
            return f"Goal({self.task}, targets={list(self.names)!r})"
        labels = ", ".join(map(repr, self.labels[:6])) + (
            f", … {len(self.labels):,} in total" if len(self.labels) > 6 else ""
        )
        return f"Goal({self.task}, target={self.target!r}, labels=({labels}))"

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 unless the task is classification."""
        return len(self.labels) if self.task in CLASSIFICATION else 0

    @property
    def label_texts(self) -> tuple[str, ...]:
        """The labels as text, as in names of outputs: ``true`` and ``false`` for booleans."""
        return tuple(map(label_text, self.labels))

    @property
    def label_array(self) -> Array:
        """The labels with the type of predictions; an array of objects for integers of more than 64 bits."""
        return np.array(self.labels, self.label_type if self.label_type in LABEL_TYPES else None)

    @property
    def each(self) -> tuple[Goal, ...]:
        """The goal of each of several targets, otherwise this one."""
        return self.targets or (self,)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the target columns."""
        return tuple(goal.target for goal in self.each if goal.target is not None)

    @property
    def tasks(self) -> frozenset[Task]:
        """The task, or those of several targets."""
        return frozenset(goal.task for goal in self.each)

    @property
    def has_classes(self) -> bool:
        """True for classification, also of several targets."""
        return self.tasks <= CLASSIFICATION

    @property
    def specs(self) -> tuple[TargetSpec, ...]:
        """Several targets as models take them; none for a single target."""
        return tuple(
            TargetSpec(goal.task, goal.n_classes, goal.target or "", goal.label_texts) for goal in self.targets
        )

    @property
    def n_outputs(self) -> int:
        """Number of predicted quantiles, or of columns of several targets; 0 for other tasks."""
        return len(self.quantiles) or sum(spec.width for spec in self.specs)

    @property
    def quantile_names(self) -> tuple[str, ...]:
        """Names of the predicted quantiles in outputs: ``quantile_0.1``."""
        return tuple(f"quantile_{level:.12g}" for level in self.quantiles)

    def outputs(self, of_goal: Callable[[Goal], Iterable[str]]) -> list[str]:
        """Return the names of outputs: those that `of_goal` gives, for several targets with the name of each.

        Examples
        --------
        >>> goal = Goal("multioutput", targets=(Goal("regression", "price"), Goal("regression", "weight")))
        >>> goal.outputs(lambda own: ["lower", "upper"])
        ['lower_price', 'upper_price', 'lower_weight', 'upper_weight']
        """
        if not self.targets:
            return list(of_goal(self))
        return list(chain.from_iterable([output_of_target(name, own) for name in of_goal(own)] for own in self.targets))


def label_text(label: Any) -> str:
    """Return a class label as text.

    >>> label_text(True), label_text(11), label_text("yes")
    ('true', '11', 'yes')
    """
    return str(label).lower() if isinstance(label, bool) else str(label)


def output_of_target(name: str, goal: Goal) -> str:
    """Return the name of an output of one of several targets.

    Examples
    --------
    >>> output_of_target("lower", Goal("regression", "price"))
    'lower_price'
    >>> output_of_target("probability_yes", Goal("binary", "churn", ("no", "yes")))
    'probability_churn_yes'
    """
    kind, _, label = name.partition("_")
    return "_".join([kind, goal.target or "", *([label] if label else [])])


@dataclass(frozen=True)
class Truth:
    """True values of some rows, which predictions are compared with.

    `y`, float64, shape (n,), or (n, k) for several targets, has class codes or numbers. `weights`, float64, shape (n,),
    is None if all rows weigh 1. `groups`, int64, shape (n,), has the code of the group of each row of a ranking.
    """

    y: Array
    weights: Array | None = None
    groups: Array | None = None

    def __len__(self) -> int:
        return len(self.y)

    def mapped(self, function: Callable[[Array], Array]) -> Truth:
        """Return the results of `function` for all arrays."""
        arrays = (self.y, self.weights, self.groups)
        y, weights, groups = (None if array is None else function(array) for array in arrays)
        assert y is not None
        return Truth(y, weights, groups)

    def of_target(self, position: int) -> Truth:
        """Return the values of one of several targets."""
        return Truth(self.y[:, position], self.weights)

    def take(self, rows: Array) -> Truth:
        """Return some of the rows, given as a mask or as row numbers."""
        return self.mapped(lambda array: array[rows])

    @staticmethod
    def join(parts: Sequence[Truth], xp: ArrayNamespace) -> Truth:
        """Return sets of rows as one."""
        each = [(part.y, part.weights, part.groups) for part in parts]
        y, weights, groups = (
            None if any(array is None for array in arrays) else xp.concatenate(arrays)
            for arrays in zip(*each, strict=True)
        )
        assert y is not None
        return Truth(y, weights, groups)


def unseen_labels(goal: Goal, y: Array | None, train: Array, test: Array) -> tuple[Any, ...]:
    """Return the classes that occur in the test rows but not in the training rows, given as masks.

    Those of several targets are texts: ``churn = yes``.
    """
    if y is None:
        return ()
    if goal.targets:
        texts: list[str] = []
        for own, column in zip(goal.targets, y.T, strict=True):
            texts += [f"{own.target} = {label}" for label in unseen_labels(own, column, train, test)]
        return tuple(texts)
    if not goal.labels:
        return ()
    seen, asked = (np.unique(y[mask]).astype(np.intp) for mask in (train, test))
    return tuple(goal.labels[code] for code in np.setdiff1d(asked, seen))


def stratum_codes(goal: Goal, y: Array | None, n_folds: int = 0) -> Array | None:
    """Return the class code of each row, int64, to stratify by; None without classes.

    Of several targets, it is the code of the set of their classes, after the label sets of Sechidis, Tsoumakas and
    Vlahavas, "On the stratification of multi-label data", ECML PKDD 2011. A row of a rare set is stratified by the
    rarest of its classes instead. If such rows are too few to be divided, they join the most frequent stratum with this
    class.

    `y` has shape (n,) or (n, k). Each of the `n_folds` folds gets rows of every stratum.
    """
    if y is None or not goal.has_classes:
        return None
    if not goal.targets:
        return y.astype("int64")
    codes = y.astype("int64")
    sets = np.zeros(len(codes), np.int64)
    for own, column in zip(goal.targets, codes.T, strict=True):
        # Each set gets a small number before the next target, so that no product of class counts overflows.
        sets = np.unique(sets * own.n_classes + column, return_inverse=True)[1]
    sizes = np.bincount(sets)
    is_rare = (sizes < max(LEAST_IN_STRATUM, 2 * n_folds))[sets]
    found, rare = sets, np.flatnonzero(is_rare)
    frequency = [np.bincount(column)[column[rare]] for column in codes.T]  # of the classes of each rare row
    target = np.argmin(frequency, axis=0)
    first = np.cumsum([0, *(own.n_classes for own in goal.targets)])  # each class of each target has its number
    found[rare] = len(sizes) + first[target] + codes[rare, target]
    is_few = (np.bincount(found) < max(2, n_folds))[found]
    for stratum in np.unique(found[is_few]):
        position = int(np.searchsorted(first, stratum - len(sizes), side="right")) - 1
        has_class = (codes[:, position] == stratum - len(sizes) - first[position]) & ~is_few
        others = found[has_class if has_class.any() else ~is_few]
        if len(others):
            found[found == stratum] = np.bincount(others).argmax()
    return np.unique(found, return_inverse=True)[1].astype("int64")

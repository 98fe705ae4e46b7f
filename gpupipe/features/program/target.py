"""The target of a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Target:
    """The target of the training rows."""

    # float64, shape (n_rows,): class codes 0..k-1, or the numbers to predict.
    values: Any  # an array; for a partitioned table, a list of array handles
    n_classes: int  # number of classes; 0 for regression
    # groups, times: shape (n_rows,): values of the columns of ``split.group`` and ``split.time``, on the host:
    # what is chosen on some rows is confirmed on other groups, or on later rows.
    groups: Any = None
    times: Any = None
    name: str = ""  # the target column, if there are several
    others: tuple[Target, ...] = ()  # the further ones of several targets

    @property
    def each(self) -> tuple[Target, ...]:
        """All targets, one by one."""
        return (replace(self, others=()), *self.others) if self.others else (self,)

    def take(self, rows: Any) -> Target:
        """Return the target of some rows, given as a mask or as row numbers."""
        groups, times = (None if column is None else column[rows] for column in (self.groups, self.times))
        others = tuple(other.take(rows) for other in self.others)
        return replace(self, values=self.values[rows], groups=groups, times=times, others=others)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of all targets: 1 for a number or two classes, else one for each class."""
        return sum(own.n_classes if own.n_classes > 2 else 1 for own in self.each)

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs of several targets: that of a number or of two classes, else one for each class."""
        found: list[str] = []
        for target in self.each if self.others else ():
            several = target.n_classes > 2
            found += [f"{target.name}_{k}" for k in range(target.n_classes)] if several else [target.name]
        return found

"""The target of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    """The target of the training rows.

    Attributes
    ----------
    values : array of float64, shape (n_rows,)
        Class codes 0..k-1, or the numbers to predict.
    n_classes : int
        Number of classes; 0 for regression.
    groups, times : array, shape (n_rows,), optional
        Values of the columns of ``split.group`` and ``split.time``, on the host: what is chosen on some rows is
        confirmed on other groups, or on later rows.
    """

    values: Any  # an array; for a partitioned table, a list of array handles
    n_classes: int
    groups: Any = None
    times: Any = None

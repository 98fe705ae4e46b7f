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
        Class codes 0..k-1, or the number to predict.
    n_classes : int
        0 for regression.
    """

    values: Any  # an array; of rows in partitions, a list of handles of arrays
    n_classes: int

"""The target of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Array = Any


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

    values: Array
    n_classes: int

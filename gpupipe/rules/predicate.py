"""A rule as a question to blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.typing import Array

BLOCK = 1 << 17  # rows: what is made of them stays in the cache
DEVICE_BLOCK = 1 << 24  # a launch takes longer than the rows


@dataclass(frozen=True)
class RulePredicate:
    """A rule of a column as a function of its rows.

    Attributes
    ----------
    rule : str
        As it is written.
    against : callable
        Takes a start and a stop row and returns which of these rows violate the rule: bool, shape (stop - start,).
    n_rows : int, optional
        How many do, if that is known without a pass over the rows.
    extremes : callable, optional
        Returns the least and the greatest value of the column, for the message.
    remark : str
        Of a rule of the kind: what the column is.
    is_of_column : bool
        Whether the rule is violated even if no single row violates it.
    """

    rule: str
    against: Callable[[int, int], Array]
    n_rows: int | None = None
    extremes: Callable[[], tuple[Any, Any]] | None = None
    remark: str = ""
    is_of_column: bool = False


def block_rows(backend: Backend) -> int:
    """Return how many rows are judged at a time."""
    return BLOCK if backend.name == "cpu" else DEVICE_BLOCK

"""Data rules as predicates over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpupipe.backends.base import Backend
from gpupipe.typing import Array

BLOCK = 1 << 17  # rows whose temporary arrays fit into the CPU cache
DEVICE_BLOCK = 1 << 24  # rows, many, as kernel launches dominate the time


@dataclass(frozen=True)
class RulePredicate:
    """A rule of a column as a predicate over its rows.

    `rule` is in YAML. `against` takes a start and a stop row, and returns the mask of rows that violate the rule: bool,
    shape (stop - start,). `n_rows` is the number of violating rows, if known without a pass over the rows. `extremes`
    returns the minimum and maximum of the column, for the message. `detail` is the kind of the column, for a rule about
    the kind. `is_of_column` is true if the column as a whole violates the rule, even without violating rows.
    """

    rule: str
    against: Callable[[int, int], Array]
    n_rows: int | None = None
    extremes: Callable[[], tuple[Any, Any]] | None = None
    detail: str = ""
    is_of_column: bool = False


def block_rows(backend: Backend) -> int:
    """Return the number of rows to check at a time."""
    return BLOCK if backend.name == "cpu" else DEVICE_BLOCK

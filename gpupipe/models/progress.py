"""Progress within a stage: rounds, epochs or trees completed.

The computing code provides a function that reads its state, and a display calls it at each redraw. Progress costs
nothing without a display, and a display cannot affect the results.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass


@dataclass(frozen=True)
class ProgressReport:
    """Progress of a long computation."""

    done: int  # number of completed units; for partitions, the number of the current one
    total: int | None  # number of all units; None if unknown
    unit: str  # name of the unit in the singular: "round", "epoch", "tree"
    may_end_early: bool = False  # whether `total` is an upper limit only
    metric_name: str = ""  # name of `metric`; "" without one
    metric: float | None = None
    fraction: float = 0.0  # completed fraction of the next unit, in [0, 1]
    # Whether this is one of an unknown number of passes, so that the remaining time cannot be estimated.
    is_one_pass: bool = False

    @property
    def position(self) -> float:
        """Number of completed units, including the fraction of the next one."""
        return self.done + self.fraction


ReadProgress = Callable[[], ProgressReport | None]
"""Return the current progress, or None while there is nothing to report. Called from the thread of a display."""

ShowProgress = Callable[[ReadProgress], AbstractContextManager[None]]
"""Return a context that displays progress during its ``with`` block."""


def show_nothing(read: ReadProgress) -> AbstractContextManager[None]:
    """Return a context that displays nothing."""
    return nullcontext()

"""Progress inside a long step: how many rounds, epochs or trees are done.

The code that does the work describes how to read its state; a display reads it as often as it is redrawn. Work that
nobody displays therefore pays nothing, and a display cannot change what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass


@dataclass(frozen=True)
class ProgressReport:
    """Progress of a step.

    Attributes
    ----------
    done : int
        Units that are complete; of partitions the number of the current one.
    total : int, optional
        Units in all; None if unknown.
    unit : str
        What is counted, in the singular: "round", "epoch", "tree".
    may_end_early : bool
        Whether `total` is only an upper limit.
    metric_name : str
        The quantity that `metric` is, "" without one.
    metric : float, optional
        Its latest value.
    fraction : float
        Part of the next unit that is complete, where a unit takes long: in [0, 1].
    is_one_pass : bool
        Whether this is one of several passes whose number is unknown, so that no time left can be estimated.
    """

    done: int
    total: int | None
    unit: str
    may_end_early: bool = False
    metric_name: str = ""
    metric: float | None = None
    fraction: float = 0.0
    is_one_pass: bool = False

    @property
    def position(self) -> float:
        """Units that are complete, with the part of the next one."""
        return self.done + self.fraction


ReadProgress = Callable[[], ProgressReport | None]
"""Return the current progress, or None while there is nothing to report. Called from a display's thread."""

ShowProgress = Callable[[ReadProgress], AbstractContextManager[None]]
"""Display the progress of what the ``with`` block does."""


def show_nothing(read: ReadProgress) -> AbstractContextManager[None]:
    """Display no progress."""
    return nullcontext()

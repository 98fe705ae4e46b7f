"""The driver of a run that ``torchrun`` has started as several processes: rank 0 runs it, the others train with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpupipe.models.neural.ranks.torchrun import is_follower, is_launched


@contextmanager
def torchrun_driver() -> Iterator[bool]:
    """Yield whether this process is the driver; any other rank has finished its part by then.

    The other ranks are dismissed when the run is over; if it fails, ``torchrun`` ends them.
    """
    if not is_launched():
        yield True
    elif is_follower():
        from gpupipe.models.neural.ranks.rank_process import follow_torchrun

        follow_torchrun()
        yield False
    else:
        from gpupipe.models.neural.ranks.collectives import dismiss

        yield True
        dismiss()

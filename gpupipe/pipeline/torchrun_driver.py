"""The driver of a run that ``torchrun`` has started as several processes: rank 0 runs it, the others train with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpupipe.models.neural.ranks.torchrun import is_launched, is_worker_rank


@contextmanager
def torchrun_driver() -> Iterator[bool]:
    """Yield whether this process is the driver; any other rank has finished its part by then.

    The other ranks are dismissed when the run is over; if it fails, ``torchrun`` ends them.
    """
    if not is_launched():
        yield True
    elif is_worker_rank():
        from gpupipe.models.neural.ranks.group import serve_torchrun

        serve_torchrun()
        yield False
    else:
        yield True
        from gpupipe.models.neural.ranks.group import release_torchrun

        release_torchrun()

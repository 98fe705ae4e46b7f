"""Choice of the driver among the processes of ``torchrun``; imports PyTorch only if there are several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gpupipe.models.neural.ranks.torchrun import is_launched


@contextmanager
def torchrun_driver() -> Iterator[bool]:
    """Yield whether this process is the driver of the run; on other ranks, serve its trainings first.

    The other ranks are released when the run is complete. If it fails, ``torchrun`` sends them SIGTERM, for which they
    must not have a Python handler: none runs while they wait in native code.
    """
    is_driver = not is_launched() or int(os.environ["RANK"]) == 0
    if not is_driver:
        from gpupipe.models.neural.ranks.group import serve_torchrun

        serve_torchrun()
    yield is_driver
    if is_launched() and is_driver:
        from gpupipe.models.neural.ranks.group import release_torchrun

        release_torchrun()

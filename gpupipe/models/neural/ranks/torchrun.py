"""Detection of ``torchrun`` by its environment variables; imports PyTorch only if there are several processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_launched() -> bool:
    """Return whether ``torchrun`` started this process as one of several."""
    return all(name in os.environ for name in VARIABLES) and int(os.environ["WORLD_SIZE"]) > 1


def world_size() -> int:
    """Return the number of processes that ``torchrun`` started on all machines; 1 without torchrun."""
    return int(os.environ["WORLD_SIZE"]) if is_launched() else 1


def local_world_size() -> int:
    """Return the number of processes that ``torchrun`` started on this machine; 1 without torchrun."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if is_launched() else 1


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

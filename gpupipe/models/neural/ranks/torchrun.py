"""Detection of ``torchrun`` by its environment variables."""

from __future__ import annotations

import os

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

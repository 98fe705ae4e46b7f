"""Detection of ``torchrun`` by the environment, without PyTorch."""

from __future__ import annotations

import os

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_launched() -> bool:
    """Return whether ``torchrun`` has started this process, with others."""
    return all(name in os.environ for name in VARIABLES) and int(os.environ["WORLD_SIZE"]) > 1


def is_worker_rank() -> bool:
    """Return whether ``torchrun`` has started this process with another rank than 0."""
    return is_launched() and int(os.environ["RANK"]) > 0


def world_size() -> int:
    """Return how many processes ``torchrun`` has started on all machines, 1 where it has not started this one."""
    return int(os.environ["WORLD_SIZE"]) if is_launched() else 1


def local_world_size() -> int:
    """Return how many processes ``torchrun`` has started on this machine, 1 where it has not started this one."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if is_launched() else 1

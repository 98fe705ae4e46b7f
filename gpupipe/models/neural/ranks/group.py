"""Process group of a training: its ranks are spawned by the driver (``--nproc``), or were started by ``torchrun``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from gpupipe.errors import ConfigError
from gpupipe.models.neural.ranks.collectives import Communicator, ProcessGroup, init_group
from gpupipe.models.neural.ranks.spawn import spawn_ranks
from gpupipe.models.neural.ranks.torchrun import is_launched


@contextmanager
def open_group(n: int, device: torch.device, n_threads: int) -> Iterator[Communicator]:
    """Yield the communicator of `n` ranks, spawned for this training, or of all that ``torchrun`` started.

    Raises
    ------
    ConfigError
        If ``torchrun`` started another number, or this process is in a group of its own already.
    GpupipeError
        If one of the others fails.
    """
    if is_launched():
        launched = int(os.environ["WORLD_SIZE"])
        if n not in (1, launched):
            raise ConfigError(f"torchrun started {launched} processes", where=f"--nproc {n}", fix="leave --nproc out")
        yield ProcessGroup(init_group(device))
    elif n == 1:
        yield Communicator()
    else:
        if dist.is_initialized():
            fix = "train before torch.distributed is initialised, or after it was destroyed"
            raise ConfigError("this process is in a group of torch.distributed", where=f"--nproc {n}", fix=fix)
        with spawn_ranks(n, device, n_threads):
            group = ProcessGroup(device)
            yield group
            group.broadcast(None)

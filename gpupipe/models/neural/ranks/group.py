"""With whom a network is trained: the leading process starts the others (``--nproc``), or ``torchrun`` has done so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from gpupipe.errors import ConfigError
from gpupipe.models.neural.ranks.collectives import Group, Processes, join
from gpupipe.models.neural.ranks.spawn import followed
from gpupipe.models.neural.ranks.torchrun import is_launched


@contextmanager
def sharing(n: int, device: torch.device, n_threads: int) -> Iterator[Processes]:
    """Yield this process with `n` - 1 others, started for this training, or all that ``torchrun`` started.

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
        yield Group(join(device))
    elif n == 1:
        yield Processes()
    else:
        if dist.is_initialized():
            fix = "train before torch.distributed is initialised, or after it was destroyed"
            raise ConfigError("this process is in a group of torch.distributed", where=f"--nproc {n}", fix=fix)
        with followed(n, device, n_threads):
            group = Group(device)
            yield group
            group.tell(None)

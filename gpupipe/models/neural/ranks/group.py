"""Process group of a training: ranks started for it by ``--nproc``, or by ``torchrun``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from gpupipe.errors import ConfigError
from gpupipe.models.neural.ranks.collectives import Communicator, ProcessGroup, init_group
from gpupipe.models.neural.ranks.local import open_local_group
from gpupipe.models.neural.ranks.torchrun import is_launched, world_size
from gpupipe.models.neural.shard_training import serve_trainings

TORCHRUN_DEADLINE = timedelta(days=1)  # the other ranks wait while rank 0 reads data and computes features


@contextmanager
def open_group(n: int, n_threads: int, device: torch.device) -> Iterator[Communicator]:
    """Yield the communicator of `n` ranks, started for this training, or of all ranks that ``torchrun`` started.

    Raise ConfigError if ``torchrun`` started another number of ranks, or this process is already in a process group;
    GpupipeError if a rank fails.
    """
    if is_launched():
        if n not in (1, world_size()):
            what = f"--nproc is {n}, but torchrun started {world_size()} processes"
            raise ConfigError(what, where=f"--nproc {n}", fix="remove --nproc")
        yield join_torchrun(device)
    elif n == 1:
        yield Communicator()
    else:
        with open_local_group(n, n_threads, device) as processes:
            yield processes


def join_torchrun(device: torch.device | None = None) -> ProcessGroup:
    """Return the process group of the ranks that ``torchrun`` started; the caller must destroy it."""
    device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return ProcessGroup(init_group(device, TORCHRUN_DEADLINE))


def serve_torchrun() -> None:
    """Serve the trainings of rank 0, on another rank that ``torchrun`` started."""
    serve_trainings(join_torchrun())
    dist.destroy_process_group()


def release_torchrun() -> None:
    """Release the ranks that ``torchrun`` started: there are no more trainings."""
    join_torchrun().broadcast(None)
    dist.destroy_process_group()

"""Process of one rank, which trains on the rows that rank 0 sends it.

`gpupipe.models.neural.ranks.spawn` runs ``python -m gpupipe.models.neural.ranks.rank_process RANK SIZE PORT DEVICE``.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from gpupipe.models.neural.broadcast_training import take_part
from gpupipe.models.neural.ranks.collectives import DEADLINE, Group, join
from gpupipe.models.neural.ranks.spawn import HERE, say_ready


def follow(device: torch.device) -> None:
    """Take part in every training until the leading process has no more."""
    group = Group(device)
    while (job := group.tell()) is not None:
        take_part(job, group)


def follow_torchrun() -> None:
    """Meet the process that leads, of those that ``torchrun`` started, and follow it."""
    follow(join(torch.device("cuda" if torch.cuda.is_available() else "cpu")))
    dist.destroy_process_group()


def main(rank: str, size: str, port: str, device: str) -> None:
    """Meet the process that listens at `port` of this machine, and follow it."""
    store = TCPStore(HERE, int(port), int(size), is_master=False, timeout=DEADLINE)
    say_ready(store, int(rank))
    follow(join(torch.device(device), store, int(rank), int(size)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])

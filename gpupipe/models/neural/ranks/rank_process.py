"""Process of one rank, which trains on the rows that rank 0 broadcasts.

`gpupipe.models.neural.ranks.spawn` runs ``python -m gpupipe.models.neural.ranks.rank_process RANK SIZE PORT DEVICE``.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from gpupipe.models.neural.broadcast_training import receive_and_train
from gpupipe.models.neural.ranks.collectives import DEADLINE, ProcessGroup, init_group
from gpupipe.models.neural.ranks.spawn import HERE, report_ready


def serve_trainings(device: torch.device) -> None:
    """Train with the other ranks until rank 0 has no more trainings."""
    group = ProcessGroup(device)
    while (job := group.broadcast()) is not None:
        receive_and_train(job, group)


def serve_torchrun_trainings() -> None:
    """Join the ranks that ``torchrun`` started, and serve the trainings of rank 0."""
    serve_trainings(init_group(torch.device("cuda" if torch.cuda.is_available() else "cpu")))
    dist.destroy_process_group()


def main(rank: str, size: str, port: str, device: str) -> None:
    """Join the group of rank 0, which listens at `port` of this machine, and serve its trainings."""
    store = TCPStore(HERE, int(port), int(size), is_master=False, timeout=DEADLINE)
    report_ready(store, int(rank))
    serve_trainings(init_group(torch.device(device), store, int(rank), int(size)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])

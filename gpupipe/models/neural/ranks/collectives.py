"""Collectives of a distributed data-parallel training.

Rank 0 is the driver, which runs the pipeline. The other ranks hold nothing but the rows that it broadcasts.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gpupipe.models.neural.ranks.torchrun import is_launched

DEADLINE = timedelta(minutes=10)  # for one exchange between processes that are at work


class Communicator:
    """The collectives of a single process, which do nothing.

    Attributes
    ----------
    rank, size : int
        Rank of this process, and number of processes.
    """

    rank = 0
    size = 1

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return `network` wrapped so that its gradients are averaged over all processes."""
        return network

    def no_sync(self, shared: nn.Module) -> AbstractContextManager[Any]:
        """Return a context in which gradients are not synchronized."""
        return nullcontext()

    def all_reduce_sum(self, values: Tensor) -> Tensor:
        """Return the sum of the values of all processes."""
        return values

    def all_reduce_min(self, value: int, device: torch.device) -> int:
        """Return the minimum of the values of all processes."""
        return value

    def broadcast(self, value: Any = None) -> Any:
        """Return the value that rank 0 passed: plain values and host tensors."""
        return value

    def broadcast_tensors(self, tensors: list[Tensor]) -> None:
        """Overwrite the tensors of all other ranks with those of rank 0."""


class ProcessGroup(Communicator):
    """The collectives of PyTorch's default process group, which is initialized.

    Parameters
    ----------
    device : torch.device
        The device of this process.
    """

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device

    def wrap(self, network: nn.Module) -> nn.Module:
        where = [self.device] if self.device.type == "cuda" else None
        # The bins of the numbers, which are its buffers, are the same everywhere as it is.
        return DistributedDataParallel(network, device_ids=where, forward_sync_buffers=False)

    def no_sync(self, shared: nn.Module) -> AbstractContextManager[Any]:
        assert isinstance(shared, DistributedDataParallel)
        no_sync: AbstractContextManager[Any] = shared.no_sync()
        return no_sync

    def all_reduce_sum(self, values: Tensor) -> Tensor:
        dist.all_reduce(values)
        return values

    def all_reduce_min(self, value: int, device: torch.device) -> int:
        found = torch.tensor(value, device=device)
        dist.all_reduce(found, dist.ReduceOp.MIN)
        return int(found)

    def broadcast(self, value: Any = None) -> Any:
        box = [value]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def broadcast_tensors(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.broadcast(tensor, src=0)


def release_ranks() -> None:
    """Tell the ranks that ``torchrun`` started that there is nothing more to train."""
    if is_launched():
        ProcessGroup(init_group(torch.device("cuda" if torch.cuda.is_available() else "cpu"))).broadcast(None)
        dist.destroy_process_group()


def init_group(
    device: torch.device, store: Any = None, rank: int = -1, size: int = -1, deadline: timedelta = DEADLINE
) -> torch.device:
    """Initialize the default process group unless it is; return the device of this rank, one of several GPUs."""
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        # Those that torchrun has started wait while the first reads and makes features.
        timeout = deadline if store is not None else timedelta(days=1)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    return device

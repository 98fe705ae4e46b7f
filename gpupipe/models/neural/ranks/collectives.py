"""One process or several that train one network together: distributed data parallel.

The process that runs the pipeline leads; the others hold nothing of a run but the rows that it sends.
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


class Processes:
    """A process by itself.

    Attributes
    ----------
    rank, size : int
        Which of the processes this is, and how many there are.
    """

    rank = 0
    size = 1

    def share(self, network: nn.Module) -> nn.Module:
        """Return `network` such that its gradients are the mean of all processes'."""
        return network

    def alone(self, shared: nn.Module) -> AbstractContextManager[Any]:
        """Return a context in which gradients stay with their process."""
        return nullcontext()

    def add(self, values: Tensor) -> Tensor:
        """Return the sum of the values of all processes."""
        return values

    def least(self, value: int, device: torch.device) -> int:
        """Return the least value of all processes."""
        return value

    def tell(self, value: Any = None) -> Any:
        """Return what the leading process gave: plain values, and tensors of the host."""
        return value

    def send(self, tensors: list[Tensor]) -> None:
        """Fill the tensors of all other processes with those of the leading one."""


class Group(Processes):
    """Processes that have found each other.

    Parameters
    ----------
    device : torch.device
        Where this process computes.
    """

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device

    def share(self, network: nn.Module) -> nn.Module:
        where = [self.device] if self.device.type == "cuda" else None
        # The bins of the numbers, which are its buffers, are the same everywhere as it is.
        return DistributedDataParallel(network, device_ids=where, forward_sync_buffers=False)

    def alone(self, shared: nn.Module) -> AbstractContextManager[Any]:
        assert isinstance(shared, DistributedDataParallel)
        no_sync: AbstractContextManager[Any] = shared.no_sync()
        return no_sync

    def add(self, values: Tensor) -> Tensor:
        dist.all_reduce(values)
        return values

    def least(self, value: int, device: torch.device) -> int:
        found = torch.tensor(value, device=device)
        dist.all_reduce(found, dist.ReduceOp.MIN)
        return int(found)

    def tell(self, value: Any = None) -> Any:
        box = [value]
        dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        return box[0]

    def send(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            dist.broadcast(tensor, src=0)


def dismiss() -> None:
    """Let the processes go that ``torchrun`` started: there is nothing more to train."""
    if is_launched():
        Group(join(torch.device("cuda" if torch.cuda.is_available() else "cpu"))).tell(None)
        dist.destroy_process_group()


def join(
    device: torch.device, store: Any = None, rank: int = -1, size: int = -1, deadline: timedelta = DEADLINE
) -> torch.device:
    """Meet the other processes, once; return the device of this one: its own of several GPUs."""
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        # Those that torchrun has started wait while the first reads and makes features.
        timeout = deadline if store is not None else timedelta(days=1)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    return device

"""One process or several that train one network together: distributed data parallel.

The process that runs the pipeline leads. It starts the others for one training (``--nproc``), or finds them where
``torchrun`` has started them; they hold nothing of a run but the rows that it sends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gpupipe.errors import ConfigError
from gpupipe.models.neural.launched import is_launched

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
        from gpupipe.models.neural.followers import followed  # it uses this file

        if dist.is_initialized():
            fix = "train before torch.distributed is initialised, or after it was destroyed"
            raise ConfigError("this process is in a group of torch.distributed", where=f"--nproc {n}", fix=fix)
        with followed(n, device, n_threads):
            group = Group(device)
            yield group
            group.tell(None)


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

"""Collectives of distributed data-parallel training."""

from __future__ import annotations

import os
import pickle
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from io import BytesIO
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


class Communicator:
    """The collectives of a single process, which do nothing."""

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
        """Return the value that rank 0 passed, with its tensors on the device of this process, or on the host."""
        return value


class ProcessGroup(Communicator):
    """The collectives of PyTorch's default process group, which must be initialized."""

    def __init__(self, device: torch.device) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.device = device

    def wrap(self, network: nn.Module) -> nn.Module:
        device = next(network.parameters()).device
        where = [device] if device.type == "cuda" else None
        # The buffers, which are the bin edges, are equal on all ranks already.
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
        # PyTorch would pickle the tensors of an object too, which takes several times their memory.
        file, tensors = BytesIO(), list[Tensor]()
        if self.rank == 0:
            _Pickler(file, tensors).dump(value)
        content = [file.getvalue()]
        dist.broadcast_object_list(content, src=0, device=torch.device("cpu"))
        if self.rank > 0:
            value = _Unpickler(BytesIO(content[0]), tensors, self.device).load()
        for tensor in tensors:
            dist.broadcast(tensor, src=0)
        return value


class _Pickler(pickle.Pickler):
    """Pickler that collects tensors instead of writing them."""

    def __init__(self, file: BytesIO, tensors: list[Tensor]) -> None:
        super().__init__(file)
        self.tensors = tensors

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor):
            return None
        self.tensors.append(obj.detach().contiguous())
        return obj.device.type, tuple(obj.shape), obj.dtype


class _Unpickler(pickle.Unpickler):
    """Unpickler that inserts uninitialized tensors and collects them."""

    def __init__(self, file: BytesIO, tensors: list[Tensor], device: torch.device) -> None:
        super().__init__(file)
        self.tensors, self.device = tensors, device

    def persistent_load(self, pid: Any) -> Tensor:
        kind, shape, dtype = pid
        self.tensors.append(torch.empty(shape, dtype=dtype, device="cpu" if kind == "cpu" else self.device))
        return self.tensors[-1]


def init_group(
    device: torch.device, deadline: timedelta, store: Any = None, rank: int = -1, size: int = -1
) -> torch.device:
    """Initialize the default process group if needed; return the device of this rank: on GPUs, that of its local rank.

    `deadline` is the time limit of one collective. The ranks find each other by `store`, by default at the address in
    the environment, set by ``torchrun``; `rank` and `size`, the number of ranks, are required with a store.
    """
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=deadline)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    return device

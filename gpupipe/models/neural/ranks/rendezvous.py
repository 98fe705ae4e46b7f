"""Rendezvous of the ranks of a training: rank 0 listens at an address that the other ranks connect to."""

from __future__ import annotations

import gc
import os
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from gpupipe.errors import ConfigError
from gpupipe.models.neural.ranks.collectives import Communicator, ProcessGroup, init_group

INTERFACE = "GLOO_SOCKET_IFNAME"  # Gloo's network interface; its default is that of the host name

_listeners: list[socket.socket] = []  # at most one, from `listen` until the training starts


@dataclass(frozen=True)
class Rendezvous:
    """Address and limits with which a rank joins its process group."""

    rank: int = 0
    size: int = 1
    host: str = ""  # address of rank 0, reachable from the other ranks
    port: int = 0  # port that `listen` returned on rank 0
    interface: str = ""  # network interface by which the other ranks reach this one; ``""``: that of the host name
    seconds: float = 0.0  # time limit of one collective, and of the rendezvous itself


def listen(host: str) -> int:
    """Listen at an address of this machine, as rank 0 of the next training; return the port."""
    while _listeners:
        _listeners.pop().close()  # left by a training that did not start
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    _listeners.append(socket.create_server((host, 0), family=family))
    return int(_listeners[-1].getsockname()[1])


def open_store(rendezvous: Rendezvous) -> TCPStore:
    """Return the store by which the ranks find each other; it has the key ``rank-1`` once rank 1 has opened it.

    On rank 0 the store listens on the port of the last `listen` call.
    """
    leads = rendezvous.rank == 0
    store = TCPStore(
        rendezvous.host,
        rendezvous.port,
        rendezvous.size,
        is_master=leads,
        wait_for_workers=False,
        timeout=timedelta(seconds=rendezvous.seconds),
        master_listen_fd=_listeners.pop().detach() if leads else None,
    )
    store.set(f"rank-{rendezvous.rank}", "here")
    return store


def require_no_group() -> None:
    """Raise ConfigError if this process is already in a process group."""
    if dist.is_initialized():
        raise ConfigError(
            "this process is already in a process group of torch.distributed",
            where="models",
            fix="train before torch.distributed is initialized, or after its group is destroyed; on a cluster, run one "
            "training at a time",
        )


@contextmanager
def join_group(rendezvous: Rendezvous, device: torch.device, store: TCPStore | None = None) -> Iterator[Communicator]:
    """Yield the communicator of the group of a rendezvous. On exit the process group is always destroyed.

    Objects that hold the group, such as a wrapped network, must be local variables of a function called in the block.
    Otherwise the last of them destroys the group while it waits for PyTorch's threads, which wait for Python: a
    deadlock.

    `store` is the one that `open_store` returned, by default a new one.

    Raise ConfigError if this process is already in a process group. PyTorch raises RuntimeError if a rank does not
    connect, is lost, or exceeds the time limit.
    """
    if rendezvous.size == 1:
        yield Communicator()
        return
    require_no_group()
    # DistributedDataParallel imports it, and its modules then keep an existing group alive for ever: after an error the
    # group would not end, and the other ranks would wait until the deadline. So import it before there is a group.
    import_module("torch._dynamo")
    deadline = timedelta(seconds=rendezvous.seconds)
    try:
        with bind_interface(rendezvous.interface):
            device = init_group(device, deadline, store or open_store(rendezvous), rendezvous.rank, rendezvous.size)
        yield ProcessGroup(device)
    except BaseException as error:
        _clear(error)
        raise
    finally:
        gc.collect()
        if dist.is_initialized():
            dist.destroy_process_group()


def _clear(error: BaseException | None) -> None:
    """Clear the frames of an error, which may reference the group."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


@contextmanager
def bind_interface(interface: str) -> Iterator[None]:
    """Bind process groups initialized inside the block to one network interface."""
    before = os.environ.get(INTERFACE)
    if interface:
        os.environ[INTERFACE] = interface
    try:
        yield
    finally:
        os.environ.pop(INTERFACE, None)
        if before is not None:
            os.environ[INTERFACE] = before

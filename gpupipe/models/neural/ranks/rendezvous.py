"""Rendezvous of the ranks of a training: rank 0 listens at an address that the others know."""

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

INTERFACE = "GLOO_SOCKET_IFNAME"  # what gloo listens at; it would take that of the host's name

_listeners: list[socket.socket] = []  # of this process, between `listen` and the training: one, or none


@dataclass(frozen=True)
class Rendezvous:
    """Address and limits with which a rank joins its process group.

    Attributes
    ----------
    rank, size : int
    host : str
        The address of rank 0, as the others reach it.
    port : int
        The port that `listen` returned there.
    interface : str
        The network interface by which the others reach this rank; ``""``: that of the host's name.
    seconds : float
        Time limit of one collective, and of the rendezvous itself.
    """

    rank: int = 0
    size: int = 1
    host: str = ""
    port: int = 0
    interface: str = ""
    seconds: float = 0.0


def listen(host: str) -> int:
    """Listen at one address of this process, which will be rank 0 of a training; return the port."""
    while _listeners:
        _listeners.pop().close()  # of a training that did not begin
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    _listeners.append(socket.create_server((host, 0), family=family))
    return int(_listeners[-1].getsockname()[1])


def open_store(rendezvous: Rendezvous) -> TCPStore:
    """Return the store by which the ranks find each other; it has the key ``rank-1`` once rank 1 has opened it.

    On rank 0 it listens at the port of the last `listen`.
    """
    leads = rendezvous.rank == 0
    store = TCPStore(
        rendezvous.host, rendezvous.port, rendezvous.size, is_master=leads, wait_for_workers=False,
        timeout=timedelta(seconds=rendezvous.seconds), master_listen_fd=_listeners.pop().detach() if leads else None,
    )  # fmt: skip
    store.set(f"rank-{rendezvous.rank}", "here")
    return store


def require_no_group() -> None:
    """Raise a ConfigError if this process is in a process group already."""
    if dist.is_initialized():
        raise ConfigError(
            "this process is in a process group of torch.distributed already",
            where="models",
            fix="train before torch.distributed is initialised, or after its group was destroyed; on the workers of a "
            "cluster, share one training at a time",
        )


@contextmanager
def join_group(rendezvous: Rendezvous, device: torch.device, store: TCPStore | None = None) -> Iterator[Communicator]:
    """Yield the communicator of the group of a rendezvous. On exit the process group is always destroyed.

    Objects that hold the group, such as a wrapped network, must be local variables of a function that the block calls:
    otherwise the last of them would destroy the group while it waits for PyTorch's threads, which wait for Python.

    Parameters
    ----------
    rendezvous : Rendezvous
    device : torch.device
    store : TCPStore, optional
        What `open_store` returned; default: it is opened here.

    Raises
    ------
    ConfigError
        If this process is in a process group already.
    RuntimeError
        PyTorch's own, if a rank does not come, is lost, or exceeds the time limit.
    """
    if rendezvous.size == 1:
        yield Communicator()
        return
    require_no_group()
    # A network that is shared imports it. Its modules hold for good a group that is there by then: it would not end,
    # and a process that errs would leave the others waiting for it until the deadline.
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
    """Clear the frames of an error, so that they hold no reference to the group."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


@contextmanager
def bind_interface(interface: str) -> Iterator[None]:
    """Bind process groups that are initialized inside to one network interface."""
    before = os.environ.get(INTERFACE)
    if interface:
        os.environ[INTERFACE] = interface
    try:
        yield
    finally:
        os.environ.pop(INTERFACE, None)
        if before is not None:
            os.environ[INTERFACE] = before

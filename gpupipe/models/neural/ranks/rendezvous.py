"""Where processes that share a training meet: one of them listens, the others know where."""

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
from gpupipe.models.neural.ranks.collectives import Group, Processes, join

INTERFACE = "GLOO_SOCKET_IFNAME"  # what gloo listens at; it would take that of the host's name

_listeners: list[socket.socket] = []  # of this process, between `listen` and the training: one, or none


@dataclass(frozen=True)
class Meeting:
    """Where and how a process meets those that it shares a training with.

    Attributes
    ----------
    rank, size : int
    host : str
        The address of the process of rank 0, as the others reach it.
    port : int
        What `listen` returned there.
    interface : str
        Of this process, by which the others reach it; ``""``: that of the host's name.
    seconds : float
        That one exchange may take, and the meeting itself.
    """

    rank: int = 0
    size: int = 1
    host: str = ""
    port: int = 0
    interface: str = ""
    seconds: float = 0.0


def listen(host: str) -> int:
    """Begin to listen, for a training that this process will lead, at one of its addresses only; return the port."""
    while _listeners:
        _listeners.pop().close()  # of a training that did not begin
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    _listeners.append(socket.create_server((host, 0), family=family))
    return int(_listeners[-1].getsockname()[1])


@contextmanager
def met(meeting: Meeting, device: torch.device) -> Iterator[Processes]:
    """Yield this process among those that it meets; behind the block, whatever happened, they are strangers again.

    What holds on to the group, as a network that is shared does, must be a local variable of a function that the block
    calls: the group would end with the last of them, which waits for PyTorch's threads while these wait for Python.

    Raises
    ------
    ConfigError
        If this process shares another training.
    RuntimeError
        PyTorch's own, if one of the others does not come, is lost, or takes longer than it may.
    """
    if meeting.size == 1:
        yield Processes()
        return
    if dist.is_initialized():
        fix = "run one after the other, or with workers of their own"
        raise ConfigError("a worker shares the training of another network", where="models", fix=fix)
    # A network that is shared imports it. Its modules hold for good a group that is there by then: it would not end,
    # and a process that errs would leave the others waiting for it until the deadline.
    import_module("torch._dynamo")
    deadline = timedelta(seconds=meeting.seconds)
    try:
        with bound_to(meeting.interface):
            device = join(device, _store(meeting, deadline), meeting.rank, meeting.size, deadline)
        yield Group(device)
    except BaseException as error:
        _clear(error)
        raise
    finally:
        gc.collect()
        if dist.is_initialized():
            dist.destroy_process_group()


def _clear(error: BaseException | None) -> None:
    """Let go of what the functions held that an error has ended."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


@contextmanager
def bound_to(interface: str) -> Iterator[None]:
    """Have groups that are made inside exchange what they do by one network interface."""
    before = os.environ.get(INTERFACE)
    if interface:
        os.environ[INTERFACE] = interface
    try:
        yield
    finally:
        os.environ.pop(INTERFACE, None)
        if before is not None:
            os.environ[INTERFACE] = before


def _store(meeting: Meeting, deadline: timedelta) -> TCPStore:
    leads = meeting.rank == 0
    return TCPStore(
        meeting.host, meeting.port, meeting.size, is_master=leads, wait_for_workers=False, timeout=deadline,
        master_listen_fd=_listeners.pop().detach() if leads else None,
    )  # fmt: skip

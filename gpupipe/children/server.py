"""Server loop of a child process: sets the limits, then replies to requests. A message is a header, then bytes."""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from gpupipe.units import MIB

REQUEST_HEADER = struct.Struct("!dQ")  # time limit in seconds, length of the content in bytes
REPLY_HEADER = struct.Struct("!BQ")  # kind, length of the content in bytes
READY = 1
REPLY = 2
OUT_OF_MEMORY = 3
CHUNK = MIB  # bytes per send or receive

GRACE_SECONDS = 5.0  # between the parent's time limit and the timer here, which ends a hanging orphan


def serve(handle: Callable[[bytes], bytes], at_end: Callable[[], None] | None = None) -> NoReturn:
    """Reply to the requests of the parent process, and exit when it closes the connection.

    Call it last in the main module of a `Child`: it sets the limits, which do not count imports made before. `handle`
    takes a message and returns the reply. An exception ends the process, which the parent sees as a `ChildError`.
    `at_end` is called when the parent has closed the connection or has ended; without it, the kernel ends this process
    with its parent.
    """
    connection_fd, lifeline, memory_bytes = map(int, sys.argv[1:4])
    for fd in (connection_fd, lifeline):
        os.set_inheritable(fd, False)
    _set_endings(lifeline if at_end is None else None)
    limit_memory(memory_bytes)
    with socket.socket(fileno=connection_fd) as connection, suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(REPLY_HEADER.pack(READY, 0))
        while header := _receive(connection, REQUEST_HEADER.size):
            seconds, length = REQUEST_HEADER.unpack(header)
            message = _receive(connection, length)
            # The default action of SIGALRM ends the process without Python, even if native code hangs.
            signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_SECONDS)
            try:
                kind, reply = REPLY, handle(message)
            except MemoryError:
                kind, reply = OUT_OF_MEMORY, b""
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.sendall(REPLY_HEADER.pack(kind, len(reply)))
            connection.sendall(reply)
    if at_end is not None:
        at_end()
    sys.stdout.flush()
    os._exit(0)  # do not wait for threads of libraries


def _receive(connection: socket.socket, length: int) -> bytes:
    """Return `length` bytes from the connection; no bytes if it is closed."""
    received = bytearray()
    while len(received) < length:
        chunk = connection.recv(min(CHUNK, length - len(received)))
        if not chunk:
            return b""
        received += chunk
    return bytes(received)


def _set_endings(lifeline: int | None) -> None:
    """Make the kernel end this process when its timer expires, and when the parent closes the lifeline."""
    import fcntl

    endings = (signal.SIGALRM, signal.SIGIO)
    for number in endings:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, endings)
    if lifeline is not None and sys.platform == "linux":  # elsewhere it ends after its reply, or when the timer expires
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def limit_memory(memory_bytes: int) -> None:
    """Disable core files, and limit memory to `memory_bytes` more than is allocated now, unless it is negative."""
    import resource

    _lower(resource.RLIMIT_CORE, 0)
    if sys.platform != "linux":
        return
    with suppress(OSError):  # if the system runs out of memory, the kernel kills this process first
        Path("/proc/self/oom_score_adj").write_text("1000")
    if memory_bytes < 0:
        return
    fields = Path("/proc/self/statm").read_text().split()
    # RLIMIT_AS would also count libraries that are loaded later, mapped files, and reserved address space.
    data = int(fields[5]) * os.sysconf("SC_PAGE_SIZE")
    _lower(resource.RLIMIT_DATA, data + memory_bytes)


def _lower(which: int, value: int) -> None:
    import resource

    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))

"""Server in the child process: sets the limits and answers questions. A message is a header, then bytes."""

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

QUESTION = struct.Struct("!dQ")  # seconds allowed, bytes that follow
ANSWER = struct.Struct("!BQ")  # kind, bytes that follow
READY, REPLY, OUT_OF_MEMORY = 1, 2, 3
CHUNK = MIB  # bytes moved at once


GRACE_SECONDS = 5.0  # between the parent's time limit and the timer here, which ends an orphan that hangs


def serve(answer: Callable[[bytes], bytes]) -> NoReturn:
    """Answer the questions of the process that started this one, and exit when it closes the connection.

    The last thing that the module of a `Child` does: limits are set here, so that imports are not counted.

    Parameters
    ----------
    answer : callable
        Takes a message and returns the reply. What it raises ends the process, as `ChildError` of the other side.
    """
    connection_fd, lifeline, memory_bytes = map(int, sys.argv[1:4])
    for fd in (connection_fd, lifeline):
        os.set_inheritable(fd, False)
    _end_with_parent(lifeline)
    _limit_memory(memory_bytes)
    with socket.socket(fileno=connection_fd) as connection, suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(ANSWER.pack(READY, 0))
        while header := _received(connection, QUESTION.size):
            seconds, length = QUESTION.unpack(header)
            message = _received(connection, length)
            # Its default action ends the process without Python: the parent may be gone, and native code may hang.
            signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_SECONDS)
            try:
                kind, reply = REPLY, answer(message)
            except MemoryError:
                kind, reply = OUT_OF_MEMORY, b""
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.sendall(ANSWER.pack(kind, len(reply)))
            connection.sendall(reply)
    sys.stdout.flush()
    os._exit(0)  # threads of libraries have nothing to finish


def _received(connection: socket.socket, length: int) -> bytes:
    """Return that many bytes; none if the connection is closed."""
    received = bytearray()
    while len(received) < length:
        chunk = connection.recv(min(CHUNK, length - len(received)))
        if not chunk:
            return b""
        received += chunk
    return bytes(received)


def _end_with_parent(lifeline: int) -> None:
    """Have the kernel end this process when its parent is gone, and when its timer runs out."""
    import fcntl

    endings = (signal.SIGALRM, signal.SIGIO)
    for number in endings:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, endings)
    if sys.platform == "linux":  # elsewhere it ends after its answer, or when its time is over
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _limit_memory(memory_bytes: int) -> None:
    """Set the limits of this process: no core file, and `memory_bytes` more than it has now unless below 0."""
    import resource

    _lower(resource.RLIMIT_CORE, 0)
    if sys.platform != "linux":
        return
    with suppress(OSError):  # where memory runs out all the same, the kernel is to choose this process
        Path("/proc/self/oom_score_adj").write_text("1000")
    if memory_bytes < 0:
        return
    fields = Path("/proc/self/statm").read_text().split()
    # RLIMIT_AS would count the libraries that are loaded later, mapped files, and what allocators reserve.
    data = int(fields[5]) * os.sysconf("SC_PAGE_SIZE")
    _lower(resource.RLIMIT_DATA, data + memory_bytes)


def _lower(which: int, value: int) -> None:
    import resource

    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))

"""Calls of libpq that wait for a server: Ctrl-C and a limit of time end the wait, and notices are not printed."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

POLL_SECONDS = 0.2


def wait_for(call: Callable[[], Any], seconds: float = math.inf) -> Any:
    """Return the result of a call in a thread, which Ctrl-C does not end; raise TimeoutError after `seconds`."""
    done: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            done.put((call(), None))
        except BaseException as error:
            done.put((None, error))

    Thread(target=run, daemon=True).start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(Empty):  # many waits: since the driver was imported, signals do not end one
            result, error = done.get(timeout=max(0.0, min(POLL_SECONDS, end - time.monotonic())))
            if error is not None:
                raise error
            return result
    raise TimeoutError(f"the server did not answer within {seconds:g} s")


@contextmanager
def without_notices() -> Iterator[None]:
    """Drop what C libraries print: libpq prints notices of the server as they are."""
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    library = ctypes.CDLL(None)
    library.fopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p.in_dll(library, "stderr")
    printed, stream.value = stream.value, library.fopen(os.devnull.encode(), b"w")
    try:
        yield
    finally:
        if not isinstance(sys.exc_info()[1], TimeoutError | KeyboardInterrupt):  # then the call goes on in its thread
            stream.value = printed

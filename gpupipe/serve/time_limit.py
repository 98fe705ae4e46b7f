"""Time limit of operations with an untrusted model, which the kernel enforces even if native code hangs.

The process ends with SIGALRM, and the supervisor replaces it. It has one timer, so the limits of all threads are here.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic

TURN_SECONDS = 1.0  # between two checks that the event loop runs

_ends: list[float] = []
_lock = Lock()


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """End this process if the block takes longer; None: unlimited."""
    if seconds is None:
        yield
        return
    end = monotonic() + seconds
    _set_timer(_ends.append, end)
    try:
        yield
    finally:
        _set_timer(_ends.remove, end)


async def watch_event_loop(seconds: float) -> None:
    """End this process if a turn of its event loop takes longer, until cancelled."""
    while True:
        with time_limit(seconds + TURN_SECONDS):
            await asyncio.sleep(TURN_SECONDS)


def _set_timer(change: Callable[[float], None], end: float) -> None:
    with _lock:
        change(end)
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, min(_ends) - monotonic()) if _ends else 0.0)

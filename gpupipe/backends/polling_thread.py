"""Background thread that makes calls at regular intervals."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

CANCEL_SECONDS = 5.0  # to wait for a call in progress, which a driver may block


@dataclass(eq=False)
class _PeriodicCall:
    seconds: float
    call: Callable[[], object]
    began: float
    due: float
    lock: threading.Lock = field(default_factory=threading.Lock)


class PollingThread:
    """Daemon thread for calls at regular intervals, as a context manager; it starts with the first call.

    A child process that is forked does not have the thread. Errors of a call are logged, and do not end the thread.

    Examples
    --------
    >>> done = threading.Event()
    >>> with PollingThread() as polling:
    ...     cancel = polling.call_every(0.001, done.set)
    ...     done.wait()
    True
    """

    def __init__(self) -> None:
        self._calls: list[_PeriodicCall] = []
        self._changed = threading.Condition()
        self._is_over = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> PollingThread:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CANCEL_SECONDS)

    def call_every(self, seconds: float, call: Callable[[], object]) -> Callable[[], bool]:
        """Make a call every `seconds`; return a function that cancels it.

        Calls that are late are skipped, so that the others keep to the grid. The function returns whether the call is
        certain not to run any more; it waits a few seconds for one in progress.
        """
        now = time.monotonic()
        periodic = _PeriodicCall(seconds, call, now, now + seconds)

        def cancel() -> bool:
            with self._changed:
                if periodic in self._calls:
                    self._calls.remove(periodic)
            if not periodic.lock.acquire(timeout=CANCEL_SECONDS):
                return False
            periodic.lock.release()
            return True

        with self._changed:
            self._calls.append(periodic)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gpupipe-polling", daemon=True)
                self._thread.start()
            self._changed.notify()
        return cancel

    def _run(self) -> None:
        while (periodic := self._next()) is not None:
            try:
                periodic.call()
            except Exception:
                logging.getLogger(__name__).debug("a periodic call failed", exc_info=True)
            finally:
                periodic.lock.release()

    def _next(self) -> _PeriodicCall | None:
        """Wait for the next call that is due and return it, locked; None at the end."""
        with self._changed:
            while not self._is_over:
                periodic = min(self._calls, key=lambda each: each.due, default=None)
                now = time.monotonic()
                if periodic is None or periodic.due > now:
                    self._changed.wait(None if periodic is None else periodic.due - now)
                    continue
                n_periods = math.floor((now - periodic.began) / periodic.seconds)
                periodic.due = periodic.began + (n_periods + 1) * periodic.seconds
                periodic.lock.acquire()  # never held by another thread while the call is listed
                return periodic
        return None

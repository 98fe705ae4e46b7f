"""Ctrl-C and SIGTERM: the first asks a run to stop where it can go on later, the second ends it now.

The kernel acts on the second one: a handler of Python's waits for native code that holds the GIL. POSIX knows handlers
that are called once (``SA_RESETHAND``): the kernel puts the default action back as it calls them, and that of Ctrl-C
and SIGTERM ends the process. Python does not offer the flag, so it is set by ``sigaction`` of the C library. Where that
is not possible, and where two signals come at once, Python acts, as soon as native code lets it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from gpupipe.errors import StoppedError
from gpupipe.pipeline.limits.safe_points import StopSignal

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
GRACE = 3.0  # seconds from "now" until the process ends even if native code does not return
ROOM = 256  # bytes; a `struct sigaction` has 152 on Linux, 16 on macOS
# Where its flags are, and the flag.
PLACES = {"linux": (136, 0x8000_0000), "darwin": (12, 0x0000_0004)}


class ImmediateExit(KeyboardInterrupt):
    """The run was told twice to end, and Python heard it.

    A class of its own: Python ends by SIGINT, whatever becomes of a plain one.
    """

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(exit_code)


class Interrupts:
    """Who listens to the signals of a run.

    A handler of Python's runs between two of its instructions: not before a library's loop in C has ended. So a thread
    hears of signals by a socket, at once.

    Parameters
    ----------
    told : callable
        Called by that thread at the first signal.
    """

    def __init__(self, told: Callable[[], None]) -> None:
        self.told = told
        self._first = 0  # the signal that asked first
        self._heard = self._handled = 0
        self._over = threading.Event()

    def check(self, where: str) -> None:
        """Raise a StoppedError if the run was asked to stop; `where` is the safe point that it is at."""
        if self._first:
            by = NAMES[signal.Signals(self._first)]
            fix = "go on with --resume, by the same command: what was done is kept"
            raise StoppedError(f"the run was stopped by {by}", self._first, where=where, fix=fix)

    def listen(self, socket_: socket.socket) -> None:
        """Hear signals until the socket is closed."""
        while number := socket_.recv(1):
            if number[0] not in SIGNALS:
                continue
            self._heard += 1
            if self._heard == 1:
                self._first = number[0]
                self.told()
            elif not self._over.wait(GRACE):
                os._exit(128 + number[0])

    def handle(self, number: int, frame: FrameType | None) -> None:
        """End the run at the second signal."""
        self._handled += 1
        if self._over.is_set():
            os._exit(128 + number)
        if max(self._heard, self._handled) > 1:  # several signals at once are handled once
            raise ImmediateExit(128 + number)

    def end(self) -> bool:
        """Have a further signal end the process; return whether there was any, and so whether one may come."""
        self._over.set()
        return bool(self._heard)


@contextmanager
def stopped_by_signals(stop_signal: StopSignal, told: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM stop the run of the ``with`` block; elsewhere than in the main thread nothing happens.

    Raises
    ------
    ImmediateExit
        At the second signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave_the_next_to_the_kernel() -> None:
        for number in SIGNALS:
            end_at(number)
        told()

    interrupts = Interrupts(leave_the_next_to_the_kernel)
    stop_signal.watch(interrupts.check)
    here, there = socket.socketpair()
    there.setblocking(False)
    ear = threading.Thread(target=interrupts.listen, args=(here,), name="gpupipe-signals", daemon=True)
    ear.start()
    before = {number: signal.signal(number, interrupts.handle) for number in SIGNALS}
    for number in SIGNALS:
        handle_once(number)
    wakeup = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        if not interrupts.end():
            for number, handler in before.items():
                signal.signal(number, handler)
        there.close()
        ear.join()
        here.close()


def is_available() -> bool:
    """Return whether the kernel can end this process: not on other systems, nor the first one of a container.

    The default action of signals is not taken for process 1.
    """
    return sys.platform in PLACES and sys.maxsize > 2**32 and os.getpid() != 1


def handle_once(number: int) -> None:
    """Have the handler of a signal, as it is set now, called for the first signal only; a second one ends the process.

    Does nothing where `is_available` says no. ``signal.signal`` takes it back.
    """
    if not is_available():
        return
    at, once = PLACES[sys.platform]
    action, libc = ctypes.create_string_buffer(ROOM), ctypes.CDLL(None)
    libc.sigaction(number, None, action)
    flags = ctypes.c_uint32.from_buffer(action, at)
    flags.value |= once
    libc.sigaction(number, action, None)


def end_at(number: int) -> None:
    """Have a signal end the process; unlike ``signal.signal`` from any thread. Nothing where `is_available` says no."""
    if is_available():
        ctypes.CDLL(None).sigaction(number, ctypes.create_string_buffer(ROOM), None)  # zeros: the default action

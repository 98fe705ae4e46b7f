"""Handling of Ctrl-C and SIGTERM: the first signal stops a run at its next safe point, the second ends it at once.

The operating system acts on the second signal, because a Python handler waits for native code that holds the GIL.
POSIX has one-shot handlers (``SA_RESETHAND``): the kernel restores the default action when it calls them, and the
default action of Ctrl-C and SIGTERM ends the process. Python does not offer this flag, so it is set with ``sigaction``
of the C library. Where that is not possible, and when two signals arrive together, Python ends the process as soon as
native code lets it.
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
from gpupipe.timeline.safe_points import StopSignal

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
GRACE = 3.0  # seconds from the second signal until the process ends even if native code does not return
ROOM = 256  # bytes; a `struct sigaction` has 152 on Linux, 16 on macOS
# Offset of its flags, and the flag.
PLACES = {"linux": (136, 0x8000_0000), "darwin": (12, 0x0000_0004)}


class ImmediateExit(KeyboardInterrupt):
    """Second signal, handled by Python.

    A separate class, because Python re-raises SIGINT for a plain KeyboardInterrupt even if it is caught.
    """

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(exit_code)


class Interrupts:
    """Signal state of a run.

    Python handlers run between two bytecode instructions, so not before a library's loop in C has ended. A thread
    therefore receives signals through a socket, at once. It calls `on_first` at the first signal.
    """

    def __init__(self, on_first: Callable[[], None]) -> None:
        self.on_first = on_first
        self._first = 0  # number of the first signal
        self._heard = self._handled = 0
        self._over = threading.Event()

    def check(self, where: str) -> None:
        """Raise a StoppedError if a signal has arrived; `where` is the current safe point."""
        if self._first:
            by = NAMES[signal.Signals(self._first)]
            fix = "resume it from its checkpoints: run the same command with --resume"
            raise StoppedError(f"the run was stopped by {by}", self._first, where=where, fix=fix)

    def listen(self, socket_: socket.socket) -> None:
        """Receive signals until the socket is closed."""
        while number := socket_.recv(1):
            if number[0] not in SIGNALS:
                continue
            self._heard += 1
            if self._heard == 1:
                self._first = number[0]
                self.on_first()
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
        """Let a further signal end the process; return whether any signal has arrived."""
        self._over.set()
        return bool(self._heard)


@contextmanager
def stopped_by_signals(stop_signal: StopSignal, on_first: Callable[[], None]) -> Iterator[None]:
    """Stop the run in the ``with`` block on Ctrl-C and SIGTERM; no effect outside the main thread.

    Raise ImmediateExit at the second signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def restore_default_actions() -> None:
        for number in SIGNALS:
            end_at(number)
        on_first()

    interrupts = Interrupts(restore_default_actions)
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
    """Return whether the operating system can end this process: on 64-bit Linux and macOS, unless it is process 1.

    Process 1 (the first of a container) ignores the default action of signals.
    """
    return sys.platform in PLACES and sys.maxsize > 2**32 and os.getpid() != 1


def handle_once(number: int) -> None:
    """Make the current handler of a signal one-shot, so that a second signal ends the process.

    No effect unless `is_available`. ``signal.signal`` undoes it.
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
    """Restore the default action of a signal, from any thread (unlike ``signal.signal``), if `is_available`."""
    if is_available():
        ctypes.CDLL(None).sigaction(number, ctypes.create_string_buffer(ROOM), None)  # zeros: the default action

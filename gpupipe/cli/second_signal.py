"""A second signal ends the process even where Python cannot: its handlers wait for native code that holds the GIL.

POSIX knows handlers that are called once (``SA_RESETHAND``): the kernel puts the default action back as it calls them,
and the default action of Ctrl-C and SIGTERM is to end the process. Python does not offer that flag, so it is set here
by ``sigaction`` of the C library.
"""

from __future__ import annotations

import ctypes
import os
import sys

ROOM = 256  # bytes; a `struct sigaction` has 152 on Linux, 16 on macOS
# Where its flags are, and the flag.
PLACES = {"linux": (136, 0x8000_0000), "darwin": (12, 0x0000_0004)}


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

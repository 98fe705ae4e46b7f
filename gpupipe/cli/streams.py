"""Standard streams that commands can rely on: open, able to show any text, and no reason for a run to end."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


@contextmanager
def standard_streams() -> Iterator[None]:
    """Prepare stdin, stdout and stderr for the ``with`` block.

    Closed ones become the null device; otherwise the next file that is opened takes their number, and what is printed
    ends up in it. Text that the encoding lacks, such as names that are not UTF-8, is printed as an escape. What cannot
    be written to stderr (a full disk, a closed terminal) is dropped: a run does not end because nobody sees it. Streams
    that a program has put in place of the system's are left alone.
    """
    _open_descriptors()
    out, err = sys.stdout, sys.stderr
    if out is sys.__stdout__:
        sys.stdout = _stream(1, out, "standard output")
    if err is sys.__stderr__:
        sys.stderr = _stream(2, err, None)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


def _open_descriptors() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)  # takes the lowest number that is free


def _stream(number: int, like: TextIO | None, name: str | None) -> TextIO:
    raw = _Descriptor(number, name)
    encoding = "utf-8" if like is None else like.encoding
    is_lined = name is None or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors="backslashreplace", line_buffering=is_lined)


class _Descriptor(io.FileIO):
    """A descriptor whose errors name it; or, without a name, one that drops what cannot be written."""

    def __init__(self, number: int, name: str | None) -> None:
        super().__init__(number, "w", closefd=False)
        self._shown_name = name

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            name, self._shown_name = self._shown_name, None  # what is still buffered is not tried again at exit
            if name is None:
                return len(data)
            raise OSError(error.errno, error.strerror, name) from None

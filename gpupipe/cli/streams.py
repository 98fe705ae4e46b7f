"""Robust standard streams: always open, able to print any text, and tolerant of write errors on stderr."""

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

    Closed streams become the null device; otherwise the next opened file would get their number, and printed text would
    end up in it. Characters that the encoding does not have are printed as escapes. Text that cannot be written to
    stderr (full disk, closed terminal) is dropped, so that it does not end a run. Streams that a program has replaced
    are not changed.
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
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)  # the lowest free number


def _stream(number: int, like: TextIO | None, name: str | None) -> TextIO:
    raw = _Descriptor(number, name)
    encoding = "utf-8" if like is None else like.encoding
    is_lined = name is None or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors="backslashreplace", line_buffering=is_lined)


class _Descriptor(io.FileIO):
    """File descriptor whose errors contain its name; without a name, it drops text that cannot be written."""

    def __init__(self, number: int, name: str | None) -> None:
        super().__init__(number, "w", closefd=False)
        self._shown_name = name

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            name, self._shown_name = self._shown_name, None  # buffered text is not retried at exit
            if name is None:
                return len(data)
            raise OSError(error.errno, error.strerror, name) from None

"""Streams of files for Arrow: local, remote through fsspec, and compressed ones decompressed.

Nothing is memory-mapped: a file that another process cuts short would end this one with SIGBUS, and what it writes
would show up in tables that were checked. Reading instead costs nothing that can be measured (compressed Parquet, CSV,
ORC: the CPU seconds are equal), and less memory counts as this process's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from gpupipe.io.file_changes import removed, require_unchanged
from gpupipe.io.files import SourceFile, convert_read_errors
from gpupipe.io.formats.registry import compression_of
from gpupipe.io.signatures import require_signature

ByteRange = tuple[int, int]  # bytes from the first up to the second


class AdaptedStream:
    """Base of streams with a ``read`` method that change or check bytes on their way to an Arrow parser."""

    closed = False

    def opened(self) -> pa.PythonFile:
        """Return the stream as Arrow reads it."""
        return pa.PythonFile(self, mode="r")

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def close(self) -> None:
        """Leave the stream below open: whoever opened it closes it."""


@contextmanager
def open_file(file: SourceFile, unpack: bool = False, span: ByteRange | None = None) -> Iterator[Any]:
    """Open a file as an Arrow stream; any error while it is open becomes a DataError that names the file.

    Parameters
    ----------
    file : SourceFile
    unpack : bool
        Whether to decompress a file whose last suffix says that it is compressed; it can only be read forwards then.
    span : (int, int), optional
        Open these bytes alone, of a local file that is not compressed.

    Raises
    ------
    DataError
        If the file cannot be read, its first bytes say that it is of another format, or it changes meanwhile.
    """
    codec = compression_of(file.path) if unpack else None
    with convert_read_errors(file.path), (_open_remote if file.remote is not None else _open_local)(file) as stream:
        if span is not None:
            yield stream.get_stream(span[0], span[1] - span[0])
        elif codec:
            yield pa.CompressedInputStream(stream, codec)
        else:
            yield stream


@contextmanager
def _open_remote(file: SourceFile) -> Iterator[Any]:
    with require_unchanged(file), file.remote.open(file.path, "rb") as raw, pa.PythonFile(raw, mode="r") as stream:
        yield stream


@contextmanager
def _open_local(file: SourceFile) -> Iterator[Any]:
    try:
        stream = pa.OSFile(os.fsencode(file.path))  # bytes: a name need not be UTF-8
    except FileNotFoundError:
        raise removed(file) from None
    with stream, require_unchanged(file, stream.fileno()):
        require_signature(file, stream)
        yield stream

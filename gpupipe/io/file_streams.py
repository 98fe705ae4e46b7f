"""File streams for Arrow: local files, remote files through fsspec, and compressed files.

Files are never memory-mapped: if another process truncated a mapped file, this one would be killed by SIGBUS, and
later writes would change tables that were already checked. Reading has no measurable cost (equal CPU seconds for
compressed Parquet, CSV and ORC) and reduces the memory that is charged to the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.file_changes import removed, require_unchanged
from gpupipe.io.file_formats import compression_of
from gpupipe.io.files import SourceFile, convert_read_errors, mask
from gpupipe.io.signatures import require_signature
from gpupipe.io.zip_members import open_member

ByteRange = tuple[int, int]  # first byte, and the end (exclusive)


class AdaptedStream:
    """Base class of streams that change or check bytes before an Arrow parser reads them."""

    closed = False

    def opened(self) -> pa.PythonFile:
        """Return the stream wrapped as a `pyarrow.PythonFile`."""
        return pa.PythonFile(self, mode="r")

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing: the underlying stream is closed by the code that opened it."""


@contextmanager
def open_file(file: SourceFile, unpack: bool = False, span: ByteRange | None = None) -> Iterator[Any]:
    """Open a file as an Arrow stream; any error while it is open is raised as a DataError that names the file.

    With `unpack`, the file is decompressed if its last suffix is that of a compression; the stream is then not
    seekable. `span` is the byte range to open, of a local uncompressed file. Raise DataError if the file cannot be
    read, its signature is that of another format, or it changes while it is open.
    """
    codec = compression_of(file.path) if unpack else None
    with convert_read_errors(file.path), (_open_remote if file.remote is not None else _open_local)(file) as stream:
        if span is not None:
            yield stream.get_stream(span[0], span[1] - span[0])
        elif codec:
            yield _unpacked(stream, codec, file)
        else:
            yield stream


def _unpacked(stream: Any, codec: str, file: SourceFile) -> Any:
    """Return the decompressed bytes of a file; Arrow has no decoder of xz and zip, the standard library has."""
    if codec == "xz":
        import lzma  # few tables need it

        return pa.PythonFile(lzma.open(stream), mode="r")
    if codec == "zip":
        try:
            return pa.PythonFile(open_member(stream), mode="r")
        except DataError as error:
            error.place(mask(file.path))
            raise
    return pa.CompressedInputStream(stream, codec)


@contextmanager
def _open_remote(file: SourceFile) -> Iterator[Any]:
    with require_unchanged(file), file.remote.open(file.path, "rb") as raw, pa.PythonFile(raw, mode="r") as stream:
        yield stream


@contextmanager
def _open_local(file: SourceFile) -> Iterator[Any]:
    try:
        stream = pa.OSFile(os.fsencode(file.path))  # bytes: a file name need not be UTF-8
    except FileNotFoundError:
        raise removed(file) from None
    with stream, require_unchanged(file, stream.fileno()):
        require_signature(file, stream)
        yield stream

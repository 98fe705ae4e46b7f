"""Opens files for Arrow: local ones memory-mapped, remote ones through their file system, compressed ones unpacked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from gpupipe.readers.files import SourceFile, reading
from gpupipe.readers.formats import compression_of

Span = tuple[int, int]  # bytes from the first up to the second


@contextmanager
def opened(file: SourceFile, unpack: bool = False, span: Span | None = None) -> Iterator[Any]:
    """Open a file as an Arrow stream; whatever goes wrong while it is open is a DataError that names the file.

    Parameters
    ----------
    file : SourceFile
    unpack : bool
        Whether to decompress a file whose last suffix says that it is compressed; it can only be read forwards then.
    span : (int, int), optional
        Open these bytes alone, of a local file that is not compressed.
    """
    codec = compression_of(file.path) if unpack else None
    with reading(file.path):
        if file.remote is not None:
            with file.remote.open(file.path, "rb") as raw, pa.PythonFile(raw, mode="r") as stream:
                yield pa.CompressedInputStream(stream, codec) if codec else stream
        elif span is not None:
            with pa.memory_map(file.path) as stream:
                yield pa.BufferReader(stream.read_buffer().slice(span[0], span[1] - span[0]))
        elif file.size == 0:  # nothing to map
            yield pa.BufferReader(b"")
        else:
            with pa.memory_map(file.path) as stream:
                yield pa.CompressedInputStream(stream, codec) if codec else stream

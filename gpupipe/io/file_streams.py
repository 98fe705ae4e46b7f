"""File streams for Arrow: local files, remote files through fsspec, and compressed files.

Files are never memory-mapped: if another process truncated a mapped file, this one would be killed by SIGBUS, and
later writes would change tables that were already checked. Reading has no measurable cost (equal CPU seconds for
compressed Parquet, CSV and ORC) and reduces the memory that is charged to the process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.io.file_changes import removed, require_unchanged
from gpupipe.io.file_formats import FORMATS, compression_of
from gpupipe.io.files import SourceFile, convert_read_errors, mask
from gpupipe.io.zip_members import open_member

EDGE = 16  # bytes checked at each end
TEXTS = ("csv", "jsonl")

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


class FileSignature(NamedTuple):
    """Signature of a file type: first bytes, last bytes if a text file could begin alike, and the format to read it."""

    name: str
    head: bytes
    tail: bytes = b""
    format: str = ""


# Checked before parsing: a parser that gets another format raises an error about its own syntax ("metadata bytes",
# "not utf8"), or returns rows.
SIGNATURES = (
    FileSignature("a Parquet file", rb"PAR1", rb"PAR1$", "parquet"),
    FileSignature("an encrypted Parquet file", rb"PARE", rb"PARE$", "parquet"),
    FileSignature("an ORC file", rb"ORC", rb"ORC.$", "orc"),
    FileSignature("an Arrow file", rb"ARROW1\0\0", format="arrow"),
    FileSignature("a Feather file", rb"FEA1", rb"FEA1$", "arrow"),
    FileSignature("an Avro file", rb"Obj\x01"),
    FileSignature("an HDF5 file", rb"\x89HDF"),
    FileSignature("an Excel file or another zip archive", rb"PK\x03\x04"),
    FileSignature("an old Excel file", rb"\xd0\xcf\x11\xe0"),
    FileSignature("a SQLite database", rb"SQLite format 3\0"),
    FileSignature("gzip-compressed data", rb"\x1f\x8b\x08"),
    FileSignature("zstd-compressed data", rb"\x28\xb5\x2f\xfd"),
    FileSignature("bzip2-compressed data", rb"BZh\d1AY&SY"),
    FileSignature("xz-compressed data", rb"\xfd7zXZ\0"),
)


PACKED = {
    "gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "bz2": b"BZh", "lz4": b"\x04\x22\x4d\x18",
    "xz": b"\xfd7zXZ\0", "zip": b"PK",
}  # fmt: skip


TEXT = re.compile(rb"[\t\r\n\x20-\x7e]+")


def require_signature(file: SourceFile, stream: Any) -> None:
    """Raise DataError if the signature of an open local file contradicts its suffix or the configured format.

    Also raise it if a binary file is empty or truncated.
    """
    if file.format not in FORMATS:
        return
    head, tail = _ends(stream, file.size)
    if (codec := compression_of(file.path)) is not None:
        if head and not head.startswith(PACKED[codec]):
            why = f"expected {codec} data from the suffix, found {head!r}"
            raise _unreadable(file, why, "rename the file to match its content, or download it again")
        return
    found = next((s for s in SIGNATURES if re.match(s.head, head) and re.search(s.tail, tail, re.DOTALL)), None)
    if found is not None and "encrypted" in found.name:
        raise DataError("the file is encrypted", where=mask(file.path), fix="decrypt it first")
    if found is not None and found.format != file.format:
        raise _unreadable(file, f"expected {file.format}, found {found.name}", _fix(found))
    if found is None and file.format not in TEXTS:
        _require_binary(file, head, tail)


def _require_binary(file: SourceFile, head: bytes, tail: bytes) -> None:
    if not head:
        raise _unreadable(file, "it is empty", "write it again: its writer was probably interrupted")
    if file.format == "parquet" and head.startswith(b"PAR1") and not tail.endswith(b"PAR1"):
        raise _unreadable(file, "it is truncated: the Parquet footer is missing", "copy or write it again")
    if TEXT.fullmatch(head):
        raise _unreadable(file, f"expected {file.format}, found text: {head.decode()!r}", _fix(None))


def _ends(stream: Any, size: int) -> tuple[bytes, bytes]:
    head = bytes(stream.read(EDGE))
    stream.seek(max(0, size - EDGE))
    tail = bytes(stream.read(EDGE))
    stream.seek(0)
    return head, tail


def _fix(found: FileSignature | None) -> str:
    if found is not None and not found.format:
        return "decompress it, or convert it to csv, parquet, jsonl, orc or arrow"
    return f"rename it to match its content, or set source.format: {found.format if found else 'csv'}"


def _unreadable(file: SourceFile, why: str, fix: str) -> DataError:
    return DataError(f"the file cannot be read: {why}", where=mask(file.path), fix=fix)

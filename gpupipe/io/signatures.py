"""File signatures (magic bytes), checked before parsing.

A parser that gets another format raises an error about its own syntax ("metadata bytes", "not utf8"), or returns rows.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from gpupipe.errors import DataError
from gpupipe.io.file_formats import FORMATS, compression_of
from gpupipe.io.files import SourceFile, mask

EDGE = 16  # bytes checked at each end
TEXTS = ("csv", "jsonl")


class FileSignature(NamedTuple):
    """Signature of a file type: first bytes, last bytes if a text file could begin alike, and the format to read it."""

    name: str
    head: bytes
    tail: bytes = b""
    format: str = ""


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

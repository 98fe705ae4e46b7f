"""File signatures, checked before a parser sees a file.

A parser that is given another format says something of its own grammar ("metadata bytes", "not utf8"), or finds rows.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from gpupipe.errors import DataError
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.formats.registry import FORMATS, compression_of

EDGE = 16  # bytes of either end that are looked at
TEXTS = ("csv", "jsonl")


class FileSignature(NamedTuple):
    """The first bytes of a kind of file, and its last bytes if a text might begin alike; ``format`` reads it."""

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
    FileSignature("compressed with gzip", rb"\x1f\x8b\x08"),
    FileSignature("compressed with zstd", rb"\x28\xb5\x2f\xfd"),
    FileSignature("compressed with bzip2", rb"BZh\d1AY&SY"),
)
PACKED = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd", "bz2": b"BZh", "lz4": b"\x04\x22\x4d\x18"}
TEXT = re.compile(rb"[\t\r\n\x20-\x7e]+")


def require_signature(file: SourceFile, stream: Any) -> None:
    """Refuse an open local file whose ends show another format than its name or the configuration says.

    Raises
    ------
    DataError
        Also if a file that is no text is empty or cut short.
    """
    if file.format not in FORMATS:
        return
    head, tail = _ends(stream, file.size)
    if (codec := compression_of(file.path)) is not None:
        if head and not head.startswith(PACKED[codec]):
            why = f"it is not {codec}, as its name says: it begins with {head!r}"
            raise _unreadable(file, why, "let its name say what it is, or fetch it again")
        return
    found = next((s for s in SIGNATURES if re.match(s.head, head) and re.search(s.tail, tail, re.DOTALL)), None)
    if found is not None and "encrypted" in found.name:
        raise DataError("the file is encrypted", where=mask(file.path), fix="decrypt it first")
    if found is not None and found.format != file.format:
        raise _unreadable(file, f"it is {found.name}, and not {file.format}", _fix(found))
    if found is None and file.format not in TEXTS:
        _require_no_text(file, head, tail)


def _require_no_text(file: SourceFile, head: bytes, tail: bytes) -> None:
    if not head:
        raise _unreadable(file, "it is empty", "write it again: a writer that was interrupted leaves 0 bytes")
    if file.format == "parquet" and head.startswith(b"PAR1") and not tail.endswith(b"PAR1"):
        raise _unreadable(file, "it begins as Parquet and does not end so: it is cut short", "copy or write it again")
    if TEXT.fullmatch(head):
        raise _unreadable(file, f"it is text, and not {file.format}: {head.decode()!r}...", _fix(None))


def _ends(stream: Any, size: int) -> tuple[bytes, bytes]:
    head = bytes(stream.read(EDGE))
    stream.seek(max(0, size - EDGE))
    tail = bytes(stream.read(EDGE))
    stream.seek(0)
    return head, tail


def _fix(found: FileSignature | None) -> str:
    if found is not None and not found.format:
        return "unpack it, or write it as csv, parquet, jsonl, orc or arrow"
    return f"name it for what it is, or state source.format: {found.format if found else 'csv'}"


def _unreadable(file: SourceFile, why: str, fix: str) -> DataError:
    return DataError(f"the file cannot be read: {why}", where=mask(file.path), fix=fix)

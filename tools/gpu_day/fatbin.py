"""Removal of all but one GPU architecture's machine code from the fat binaries of a shared library.

RAPIDS libraries contain machine code for six architectures and PTX. Payloads for other architectures are overwritten
with zeros, which compress to almost nothing; sizes, offsets and headers stay, so the loader still reads the file.

A section ``.nv_fatbin`` is a sequence of containers: {u32 magic, u16 version, u16 header size, u64 body size}. The body
is a sequence of entries: {u16 kind, u16 version, u32 header size, u64 payload size, ..., u32 architecture at byte 28,
...}, each followed by its payload.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
MAGIC = 0xBA55ED50
PTX, CUBIN = 1, 2
NO_BYTES = 8  # SHT_NOBITS: the section occupies no bytes in the file


@dataclass(frozen=True)
class FatbinEntry:
    """Machine code or PTX of one architecture.

    Attributes
    ----------
    kind : int
        `PTX` or `CUBIN`.
    architecture : int
        90 for sm_90.
    start, size : int
        Bytes of the payload in the file.
    """

    kind: int
    architecture: int
    start: int
    size: int


@dataclass
class Blanked:
    """Bytes of fat binaries that were kept and that were overwritten."""

    kept_bytes: int = 0
    blanked_bytes: int = 0


def blank_other_architectures(path: Path, architecture: int) -> Blanked | None:
    """Overwrite payloads that `architecture` does not need, in place; return None if the file has no fat binary.

    Raises
    ------
    ValueError
        If a fat binary is malformed.
    """
    data = bytearray(path.read_bytes())
    if data[:5] != b"\x7fELF\x02":
        return None
    sections = [(start, size) for name, start, size in elf_sections(data) if name in SECTIONS]
    if not sections:
        return None
    found = Blanked()
    for start, size in sections:
        for entries in containers(data, start, size):
            needed = needed_entries(entries, architecture)
            for entry in entries:
                if entry in needed:
                    found.kept_bytes += entry.size
                else:
                    data[entry.start : entry.start + entry.size] = bytes(entry.size)
                    found.blanked_bytes += entry.size
    path.write_bytes(data)
    return found


def elf_sections(data: bytes | bytearray) -> list[tuple[str, int, int]]:
    """Return name, file offset and size of each non-empty section of a 64-bit little-endian ELF file."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, n_sections, names_index = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * entry_size) for i in range(n_sections)]
    if not headers:
        return []
    names = headers[names_index][4]
    found = []
    for name_offset, kind, _, _, start, size in headers:
        name = bytes(data[names + name_offset : data.index(b"\0", names + name_offset)]).decode("ascii", "replace")
        if kind != NO_BYTES:
            found.append((name, start, size))
    return found


def containers(data: bytes | bytearray, start: int, size: int) -> Iterator[list[FatbinEntry]]:
    """Yield the entries of each container in a section.

    Raises
    ------
    ValueError
        If the section is malformed.
    """
    at, end = start, start + size
    while at + 16 <= end:
        magic, _, header, body = struct.unpack_from("<IHHQ", data, at)
        if magic != MAGIC:
            if any(data[at : at + 8]):
                raise ValueError(f"unknown bytes at {at:#x} in a fat binary")
            at += 8  # padding
            continue
        entries = []
        entry = at + header
        stop = at + header + body
        while entry < stop:
            kind, _, header, payload = struct.unpack_from("<HHIQ", data, entry)
            (architecture,) = struct.unpack_from("<I", data, entry + 28)
            if kind not in (PTX, CUBIN) or header < 64 or entry + header + payload > stop:
                raise ValueError(f"malformed entry at {entry:#x} in a fat binary: kind {kind}, header {header}")
            entries.append(FatbinEntry(kind, architecture, entry + header, payload))
            entry += header + payload
        yield entries
        at = stop


def needed_entries(entries: list[FatbinEntry], architecture: int) -> set[FatbinEntry]:
    """Return the entries that the loader would select: the architecture's machine code, else the best substitute.

    A cubin runs on later minor versions of its major version; PTX can be compiled for any later architecture. If no
    entry would run, all are returned.
    """
    cubins = {e for e in entries if e.kind == CUBIN and e.architecture <= architecture}
    same_major = {e for e in cubins if e.architecture // 10 == architecture // 10}
    ptx = {e for e in entries if e.kind == PTX and e.architecture <= architecture}
    for candidates in (same_major, ptx):
        if candidates:
            newest = max(e.architecture for e in candidates)
            return {e for e in candidates if e.architecture == newest}
    return set(entries)

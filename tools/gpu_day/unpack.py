"""Unpacker for the GPU machine: ``python3 -m tools.gpu_day.unpack PART SITE``.

PART is a folder written by `pack`: MANIFEST.json, and one part of a stream of archives. SITE/.parts stores the parts
that have arrived for later calls on the same machine; each stage is unpacked once, as soon as it is complete. The exit
code is 1 if the part is corrupt. Nothing outside SITE is changed.

RAPIDS' libraries look for CUDA's at ../../nvidia/*/lib. Links to the machine's libraries are created there, and removed
while a stage is unpacked: otherwise a file of the stage could be written through a link into a library of the machine.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CUDA_LIBRARIES = (
    "libcublas", "libcudart", "libcufft", "libcufile", "libcurand", "libcusolver", "libcusparse.", "libnccl",
    "libnvJitLink", "libnvrtc", "libnvvm",
)  # fmt: skip


class CorruptPart(Exception):
    """A part that differs from the packed bytes."""


class PartsReader(io.RawIOBase):
    """Reader of bytes ``start`` to ``end`` of a stream that is stored in several files.

    Parameters
    ----------
    files : list of (path, offset of its first byte in the stream, length)
    start, end : int
    """

    def __init__(self, files: Sequence[tuple[Path, int, int]], start: int, end: int) -> None:
        self._files, self._at, self._end = files, start, end

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read up to the end of the current file."""
        for path, first, length in self._files:
            if first <= self._at < min(first + length, self._end):
                with path.open("rb") as part:
                    part.seek(self._at - first)
                    block = part.read(min(len(buffer), first + length - self._at, self._end - self._at))
                buffer[: len(block)] = block
                self._at += len(block)
                return len(block)
        return 0


def unpack(part: Path, site: Path, libraries: Sequence[str]) -> list[str]:
    """Store a part, unpack each complete stage, and link the machine's CUDA libraries.

    Parameters
    ----------
    part, site : Path
    libraries : sequence of str
        Folders that contain the folder ``nvidia`` of CUDA wheels: those of `sys.path`.

    Returns
    -------
    list of str
        The outcome of each stage, as text.

    Raises
    ------
    CorruptPart
    """
    manifest = json.loads((part / "MANIFEST.json").read_text(encoding="utf8"))
    arrived = _take_over(part, site, manifest)
    report = []
    for name, stage in manifest["stages"].items():
        done = site / f".{name}"
        files = [
            (site / ".parts" / part_name, row["first"], row["bytes"])
            for part_name, row in arrived.items()
            if row["stream"] == stage["stream"]
        ]
        missing = stage["end"] - stage["start"] - _overlap(files, stage["start"], stage["end"])
        if done.exists():
            report.append(f"{name}: unpacked earlier")
        elif missing and files:  # a spare stage that was not carried is not reported
            report.append(f"{name}: {missing:,} of {stage['end'] - stage['start']:,} bytes have not arrived")
        elif files:
            began = time.monotonic()
            unlink_cuda(site)
            source = io.BufferedReader(PartsReader(files, stage["start"], stage["end"]), 1 << 22)
            with lzma.LZMAFile(source) as archive, tarfile.open(fileobj=archive, mode="r|") as tar:
                tar.extractall(site, filter="tar")
            done.touch()
            report.append(f"{name}: unpacked in {time.monotonic() - began:.0f} s")
    if n_links := link_cuda(site, libraries):
        report.append(f"linked {n_links} CUDA libraries of this machine")
    return report


def _take_over(part: Path, site: Path, manifest: Any) -> dict[str, Any]:
    """Copy a part into ``site/.parts``; return the manifest entries of all parts that have arrived."""
    kept = site / ".parts"
    kept.mkdir(parents=True, exist_ok=True)
    block = (part / "bytes").read_bytes()
    if hashlib.sha256(block).hexdigest() != manifest["parts"][part.name]["sha256"]:
        raise CorruptPart(f"{part.name} is corrupt: its SHA-256 differs from MANIFEST.json; transfer it again")
    (kept / part.name).write_bytes(block)
    return {name: row for name, row in manifest["parts"].items() if (kept / name).exists()}


def _overlap(files: Sequence[tuple[Path, int, int]], start: int, end: int) -> int:
    return sum(max(0, min(first + length, end) - max(first, start)) for _, first, length in files)


def unlink_cuda(site: Path) -> None:
    """Remove the links that `link_cuda` created."""
    for path in site.glob("nvidia/*/lib/*"):
        if path.is_symlink() and not path.resolve().is_relative_to(site.resolve()):
            path.unlink()


def link_cuda(site: Path, libraries: Sequence[str]) -> int:
    """Link CUDA libraries of the machine's wheels where the packed ones look for them; return the number of links."""
    n_links = 0
    for base in map(Path, filter(None, libraries)):
        if not (base / "nvidia").is_dir() or base.resolve() == site.resolve():
            continue
        for folder in sorted((base / "nvidia").iterdir()):
            here = site / "nvidia" / ("nccl" if folder.name == "nccl" else "cu13") / "lib"
            for library in sorted((folder / "lib").glob("*.so*")):
                if library.name.startswith(CUDA_LIBRARIES) and not os.path.lexists(here / library.name):
                    here.mkdir(parents=True, exist_ok=True)
                    (here / library.name).symlink_to(library.resolve())
                    n_links += 1
    return n_links


def main(arguments: Sequence[str]) -> int:
    """Unpack a part, print the outcome of each stage, and return the exit code."""
    part, site = map(Path, arguments)
    try:
        print("\n".join(unpack(part, site, sys.path)), flush=True)
    except CorruptPart as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Reproducible archives of folders, and streams of archives cut into parts of equal size."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SMALL_BYTES = 4096  # bytes; files up to this size are not deduplicated


@dataclass(frozen=True)
class StageSpan:
    """Bytes ``start`` to ``end`` of a stream: the archive of one stage."""

    start: int
    end: int


def write_archive(folder: Path, target: Path) -> None:
    """Write `folder` as a reproducible .tar.xz, with equal files as hard links.

    Requires `xz` on PATH, which takes half the time of the standard library's compressor: two threads, largest
    dictionary.
    """
    with target.with_suffix("").open("w+b") as plain:
        _write_tar(folder, plain.name)
    with target.open("wb") as packed:
        subprocess.run(["xz", "-9", "-T2", "-c", plain.name], stdout=packed, check=True)
    Path(plain.name).unlink()


def _write_tar(folder: Path, target: str) -> None:
    seen: dict[str, str] = {}
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in _ordered(folder):
            name = str(path.relative_to(folder))
            info = tar.gettarinfo(path, name)
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            info.mode = 0o755 if info.mode & 0o100 else 0o644
            if path.is_symlink():
                tar.addfile(info)
                continue
            size = path.stat().st_size
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if size > SMALL_BYTES else ""
            if digest in seen:
                info.type, info.linkname, info.size = tarfile.LNKTYPE, seen[digest], 0
                tar.addfile(info)
                continue
            if digest:
                seen[digest] = name
            info.type, info.linkname, info.size = tarfile.REGTYPE, "", size
            with path.open("rb") as source:
                tar.addfile(info, source)


def _ordered(folder: Path) -> list[Path]:
    """Return all files: libraries first, then by suffix, so that similar contents are adjacent."""
    files = [path for path in folder.rglob("*") if path.is_file() or path.is_symlink()]
    return sorted(files, key=lambda path: (".so" not in path.name, path.suffix, str(path)))


def join(archives: Mapping[str, Path], target: Path) -> dict[str, StageSpan]:
    """Write archives one after the other to `target`; return the span of each."""
    spans = {}
    with target.open("wb") as stream:
        for name, archive in archives.items():
            start = stream.tell()
            with archive.open("rb") as source:
                shutil.copyfileobj(source, stream)
            spans[name] = StageSpan(start, stream.tell())
    return spans


def cut(stream: Path, part_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each part of a stream."""
    with stream.open("rb") as source:
        start = 0
        while block := source.read(part_bytes):
            yield start, block
            start += len(block)

"""Cache folder of compiled code. Standard library only: checking the cache does not load a compiler.

The folder name contains a hash of this package's sources. Numba itself checks only the file that defines a function, so
it would keep using a loop after a formula in another file has changed. Numba's cache files are pickles: write access to
the folder means code execution in this process, so the folder is used only if no other user can write to it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import time
from functools import cache
from itertools import chain
from pathlib import Path

from gpupipe_kernels.private_folders import find_exposed_file, find_exposure, make_private

CPUINFO = Path("/proc/cpuinfo")
SOURCES = Path(__file__).parent

OTHERS_KEPT = 3  # folders of other sources: other versions or checkouts
SECONDS_KEPT = 30 * 86_400  # without use
SECONDS_IN_USE = 3_600  # after its last use, a folder may still belong to a compiling process
PRIVATE_FOLDER = "set NUMBA_CACHE_DIR to a folder that only you can write to, or remove write access with chmod go-w"
FOLDER = re.compile(r"[0-9a-f]{16}")
FILE = re.compile(r".+\.(kept|nb[ci](\.tmp\.\w+)?|ptx(\.\d+\.tmp)?)")  # our markers, Numba's cache files, device code


@cache
def fingerprint() -> str:
    """Return a hash of the sources of this package."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Return the folder of compiled code, in ``NUMBA_CACHE_DIR`` if set, else in the user's cache folder.

    In a world-writable folder such as ``/tmp``, each user gets a separate folder.
    """
    base = _base()
    return (base / f"user-{os.geteuid()}" if _is_for_all_users(base) else base) / "kernels" / fingerprint()


def _base() -> Path:
    root = os.environ.get("NUMBA_CACHE_DIR")
    return Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gpupipe"


def _is_for_all_users(folder: Path) -> bool:
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def _provided() -> Path | None:
    """Return the folder of compiled code shared by all users, as shipped in a container image; None if absent.

    A user's folder starts as a copy of it, because Numba only reads from folders that it can write to.
    """
    folder = _base() / "kernels" / fingerprint()
    return folder if folder != cache_folder() and folder.is_dir() and not _exposure(folder) else None


def exposure() -> str:
    """Return the reason why other users could modify the folder of compiled code, or "" if they cannot."""
    return _exposure(cache_folder())


def take_exposure() -> str:
    """Return `exposure` once after it prevented caching, else ""."""
    return _unreported.pop() if _unreported else ""


def is_kept(name: str) -> bool:
    """Return whether the code `name` is cached for this processor."""
    try:
        if cache_folder().exists():
            return _mark(name).is_file() and not exposure()
        provided = _provided()
        return provided is not None and (provided / _mark(name).name).is_file()
    except PermissionError:
        return False


def mark_kept(name: str) -> None:
    """Record that the code `name` is now on disk; do nothing if the folder is read-only or unsafe."""
    try:
        if not exposure():
            _mark(name).touch()
    except OSError:
        return


def can_keep() -> bool:
    """Return whether compiled code can be cached; create the folder if it does not exist.

    The folder is marked as just used. A new folder means new sources, so old folders are removed.
    """
    folder = cache_folder()
    if problem := exposure():
        if problem not in _found:
            _found.add(problem)
            _unreported.append(problem)
        return False
    try:
        is_new = not folder.exists()
        if is_new and (provided := _provided()):
            _copy(provided, folder)
        make_private(folder)
        os.utime(folder)
    except OSError:
        return False
    if is_new:
        _prune(folder)
    return os.access(folder, os.W_OK)


_found: set[str] = set()
_unreported: list[str] = []


@cache
def _exposure(folder: Path) -> str:
    """Check a folder once per process: a folder that no other user can modify stays safe."""
    try:
        if problem := find_exposure(folder):
            return problem
        is_there = folder.is_dir()
    except OSError:  # an inaccessible folder cannot be used
        return ""
    try:
        return find_exposed_file(folder) if is_there else ""
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"


def _copy(provided: Path, folder: Path) -> None:
    """Copy compiled code atomically, because Numba fails on an incomplete index."""
    make_private(folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".copy-") as draft:
        shutil.copytree(provided, Path(draft) / "code", copy_function=shutil.copyfile)
        try:
            (Path(draft) / "code").rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster
                raise


def _prune(current: Path) -> None:
    """Remove folders of other sources, except recently used ones."""
    ages = {folder: _age(folder) for folder in current.parent.iterdir() if folder != current and _is_ours(folder)}
    for rank, (folder, age) in enumerate(sorted(ages.items(), key=lambda item: item[1])):
        if age > SECONDS_KEPT or (rank >= OTHERS_KEPT and age > SECONDS_IN_USE):
            _remove(folder)


def _age(folder: Path) -> float:
    """Return the seconds since a folder was last used; 0 if another process has just removed it."""
    try:
        return time.time() - folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _is_ours(folder: Path) -> bool:
    """Return whether a folder has a cache folder's name and contains only compiled code."""
    if not FOLDER.fullmatch(folder.name) or folder.is_symlink() or not folder.is_dir():
        return False
    return all(map(FILE.fullmatch, chain.from_iterable(names for _, _, names in os.walk(folder))))


def _remove(folder: Path) -> None:
    """Remove a folder, markers first, so that no process relies on partly removed code.

    Files that another process removes first, has just written, or protects are skipped.
    """
    try:
        for mark in folder.glob("*.kept"):
            mark.unlink(missing_ok=True)
        shutil.rmtree(folder)
    except OSError:
        return


def _mark(name: str) -> Path:
    return cache_folder() / f"{name}-{_machine()}.kept"


@cache
def _machine() -> str:
    """Return a hash of the processor, compiler and sources that machine code depends on."""
    from importlib.metadata import version

    settings = (os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_OPT"))
    written = max(path.stat().st_mtime for path in SOURCES.rglob("*.py"))
    parts = (sys.version, version("numba"), platform.machine(), str(SOURCES), str(written), *settings, *_processor())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _processor() -> list[str]:
    """Return the lines that describe the features of the first processor."""
    try:
        first = CPUINFO.read_text(encoding="utf8", errors="replace").partition("\n\n")[0]
    except OSError:
        return [platform.processor()]
    return [line for line in first.splitlines() if line.startswith(("vendor_id", "cpu family", "model", "flags"))]

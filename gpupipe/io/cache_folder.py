"""Folder of the table cache, with safe removal of entries.

A folder is used only if it is new, empty, or contains only cached tables. It gets a ``CACHEDIR.TAG``, so that backup
programs skip it. An entry is removed only if its name is a key, it has the marker of gpupipe, and it contains no
other file.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from gpupipe.errors import ConfigError
from gpupipe.names import enumerate_names
from gpupipe.units import DAY_SECONDS
from gpupipe_kernels.private_folders import make_private

ENTRY = re.compile(r"[0-9a-f]{64}")
DRAFT = re.compile(r"\.draft-[0-9a-z_]{8}")
TABLE_FILE = re.compile(r"format\.json|table\.json|levels\.json|texts\.arrow|(u?int|float|bool)[0-9]*\.npy")
MARKER = "format.json"
MARKER_TEXT = '{"format": "gpupipe-table", "format_version": 1}\n'
TAG = "CACHEDIR.TAG"
TAG_TEXT = """\
Signature: 8a477f597d28d172789f06886806bc55
# This directory is a cache of tables that gpupipe has read; it can be removed at any time.
# About cache directory tags: https://bford.info/cachedir/
"""
COMPILED = "kernels"  # folder of compiled code, next to the tables by default


def require_own(folder: Path, setting: str) -> None:
    """Raise ConfigError if `folder`, configured by `setting`, contains anything except cached tables."""
    if names := find_foreign_names(folder):
        raise ConfigError(
            f"{setting}: the folder contains files that gpupipe did not write: {enumerate_names(names, 3)}",
            where=os.path.abspath(folder),
            fix=f"use a folder for the cache only, such as {folder / 'gpupipe-cache'}",
        )


def find_foreign_names(folder: Path) -> list[str]:
    """Return the names in a folder that are not part of a table cache, hidden names last.

    In a tagged folder, hidden names are ignored: file systems and file managers create them.
    """
    try:
        names = sorted(os.listdir(folder), key=lambda name: (name.startswith("."), name))
    except OSError:  # missing or not accessible: storing an entry reports it
        return []
    is_tagged = _is_tagged(folder)
    return [name for name in names if not (is_tagged and name.startswith(".")) and not _is_known(folder / name)]


def set_up_folder(folder: Path) -> None:
    """Create a cache folder that is private to this user, and tag it.

    Raise OSError if it cannot be created or written.
    """
    make_private(folder)
    with suppress(FileExistsError), (folder / TAG).open("x", encoding="utf8") as file:
        file.write(TAG_TEXT)


def make_draft(folder: Path) -> Path:
    """Create and return a temporary folder, with the marker, in which to write an entry."""
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
    (draft / MARKER).write_text(MARKER_TEXT, encoding="utf8")
    return draft


def is_entry(path: Path) -> bool:
    """Return True if a path is an entry or draft that gpupipe wrote; False for links."""
    try:
        if not (ENTRY.fullmatch(path.name) or DRAFT.fullmatch(path.name)) or not stat.S_ISDIR(path.lstat().st_mode):
            return False
        return stat.S_ISREG((path / MARKER).lstat().st_mode) and (path / MARKER).read_text("utf8") == MARKER_TEXT
    except (OSError, ValueError):
        return False


def remove_entry(path: Path) -> None:
    """Remove an entry or draft; other processes see it disappear at once. Anything else is kept.

    Open memory maps of its files stay valid.
    """
    if not _is_removable(path):
        return
    gone = path.with_name(f".draft-{secrets.token_hex(4)}")
    with suppress(OSError):  # another process removed it first
        path.rename(gone)
        _remove_files(gone)
        gone.rmdir()


def make_room(folder: Path, limit_bytes: int) -> None:
    """Remove the least recently used entries until the total size is at most `limit_bytes`."""
    uses = {path: use for path in folder.iterdir() if _is_removable(path) and (use := _last_use(path)) is not None}
    sizes = {path: size_of(path) for path in uses}
    excess = sum(sizes.values()) - limit_bytes
    for path in sorted(uses, key=uses.__getitem__):
        if excess <= 0:
            return
        remove_entry(path)
        excess -= sizes[path]


def size_of(entry: Path) -> int:
    """Return the size of an entry in bytes; files that another process removes meanwhile are not counted."""
    total = 0
    with suppress(FileNotFoundError):
        for path in entry.iterdir():
            total += path.lstat().st_size
    return total


def _last_use(path: Path) -> int | None:
    """Return the time of last use in ns; None for a draft that a process may still be writing."""
    try:
        used = path.lstat().st_mtime_ns
    except FileNotFoundError:
        return None
    is_written = DRAFT.fullmatch(path.name) and used > (time.time() - DAY_SECONDS) * 1e9
    return None if is_written else used


def _is_tagged(folder: Path) -> bool:
    try:
        return (folder / TAG).read_text(encoding="utf8") == TAG_TEXT
    except (OSError, ValueError):
        return False


def _is_known(path: Path) -> bool:
    """Return True if a path may be in a table cache; entries of early versions have no marker."""
    if ENTRY.fullmatch(path.name):
        # Another process may evict the entry and store it again between these checks.
        return is_entry(path) or (path / "table.json").is_file() or not os.path.lexists(path) or is_entry(path)
    return path.name in (TAG, COMPILED, "lost+found") or DRAFT.fullmatch(path.name) is not None


def _is_removable(path: Path) -> bool:
    """Return True if a path is an entry or draft without additional files."""
    try:
        return is_entry(path) and all(
            TABLE_FILE.fullmatch(file.name) and stat.S_ISREG(file.lstat().st_mode) for file in path.iterdir()
        )
    except FileNotFoundError:  # another process is removing it
        return False


def _remove_files(entry: Path) -> None:
    """Remove the files of a table relative to the open folder, so that no link is followed; the marker last."""
    opened = os.open(entry, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in sorted(os.listdir(opened), key=MARKER.__eq__):
            if TABLE_FILE.fullmatch(name):
                os.unlink(name, dir_fd=opened)
    finally:
        os.close(opened)

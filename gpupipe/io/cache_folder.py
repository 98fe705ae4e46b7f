"""Folder of the table cache: what in it is ours, and the removal of that alone.

A folder is used only if it is new, empty, or holds nothing but cached tables. It gets a ``CACHEDIR.TAG``, by which
backup programs skip it. An entry is removed only if its name is a key, its marker says that gpupipe wrote it, and no
other file was put into it.
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
COMPILED = "kernels"  # the folder of compiled code, which is beside the tables by default


def require_own(folder: Path, setting: str) -> None:
    """Raise ConfigError if `folder`, which `setting` names, holds anything but cached tables."""
    if names := find_foreign_names(folder):
        raise ConfigError(
            f"{setting} names a folder that holds files of others: {enumerate_names(names, 3)}",
            where=os.path.abspath(folder),
            fix=f"name a folder for the cache alone, such as {folder / 'gpupipe-cache'}",
        )


def find_foreign_names(folder: Path) -> list[str]:
    """Return the names in a folder that do not belong to a table cache, hidden ones last.

    Where the folder has been taken into use, hidden ones are those of file systems and file managers.
    """
    try:
        names = sorted(os.listdir(folder), key=lambda name: (name.startswith("."), name))
    except OSError:  # it does not exist, or cannot be used: storing says so
        return []
    is_tagged = _is_tagged(folder)
    return [name for name in names if not (is_tagged and name.startswith(".")) and not _is_known(folder / name)]


def set_up_folder(folder: Path) -> None:
    """Create a cache folder for this user only, and tag it.

    Raises
    ------
    OSError
        If it cannot be made, or written to.
    """
    make_private(folder)
    with suppress(FileExistsError), (folder / TAG).open("x", encoding="utf8") as file:
        file.write(TAG_TEXT)


def make_draft(folder: Path) -> Path:
    """Return a new folder for an entry to be written into, which bears the marker."""
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder))
    (draft / MARKER).write_text(MARKER_TEXT, encoding="utf8")
    return draft


def is_entry(path: Path) -> bool:
    """Return whether a path is an entry, or the draft of one, that gpupipe wrote; a link to one is not."""
    try:
        if not (ENTRY.fullmatch(path.name) or DRAFT.fullmatch(path.name)) or not stat.S_ISDIR(path.lstat().st_mode):
            return False
        return stat.S_ISREG((path / MARKER).lstat().st_mode) and (path / MARKER).read_text("utf8") == MARKER_TEXT
    except (OSError, ValueError):
        return False


def remove_entry(path: Path) -> None:
    """Remove an entry or a draft, at once as far as others see; what is not ours, or cannot be removed, stays.

    Open memory maps of its files stay valid.
    """
    if not _is_removable(path):
        return
    gone = path.with_name(f".draft-{secrets.token_hex(4)}")
    with suppress(OSError):  # another process was faster
        path.rename(gone)
        _remove_files(gone)
        gone.rmdir()


def make_room(folder: Path, limit_bytes: int) -> None:
    """Remove the least recently used entries until those that stay have at most `limit_bytes`."""
    uses = {path: use for path in folder.iterdir() if _is_removable(path) and (use := _last_use(path)) is not None}
    sizes = {path: size_of(path) for path in uses}
    excess = sum(sizes.values()) - limit_bytes
    for path in sorted(uses, key=uses.__getitem__):
        if excess <= 0:
            return
        remove_entry(path)
        excess -= sizes[path]


def size_of(entry: Path) -> int:
    """Return the bytes of an entry; those that another process is removing do not count."""
    total = 0
    with suppress(FileNotFoundError):
        for path in entry.iterdir():
            total += path.lstat().st_size
    return total


def _last_use(path: Path) -> int | None:
    """Return when an entry was last used, in ns; None for the draft of a process that may still be writing it."""
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
    """Return whether a path may be in a cache of tables; entries of early versions have no marker."""
    if ENTRY.fullmatch(path.name):
        # Other processes evict entries and store them again meanwhile.
        return is_entry(path) or (path / "table.json").is_file() or not os.path.lexists(path) or is_entry(path)
    return path.name in (TAG, COMPILED, "lost+found") or DRAFT.fullmatch(path.name) is not None


def _is_removable(path: Path) -> bool:
    """Return whether a path is an entry, or a draft, to which nobody has added anything."""
    try:
        return is_entry(path) and all(
            TABLE_FILE.fullmatch(file.name) and stat.S_ISREG(file.lstat().st_mode) for file in path.iterdir()
        )
    except FileNotFoundError:  # another process is removing it
        return False


def _remove_files(entry: Path) -> None:
    """Remove the files of a table by the opened folder, so that no link is followed; the marker goes last."""
    opened = os.open(entry, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in sorted(os.listdir(opened), key=MARKER.__eq__):
            if TABLE_FILE.fullmatch(name):
                os.unlink(name, dir_fd=opened)
    finally:
        os.close(opened)

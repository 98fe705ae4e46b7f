"""Folders that no other user can change: the only ones from which compiled code, and tables, are loaded.

Whoever can write to such a folder decides what this process runs. The rules are those of OpenSSH for its keys: the
folder, and each one on the way to it, belongs to this user or to root, and nobody else may write to it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

PRIVATE = 0o700
MAX_LINKS = 40  # as many as Linux follows


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents, with access for this user only.

    Raises
    ------
    OSError
        If one of them cannot be made.
    """
    if folder.is_dir():
        return
    make_private(folder.parent)
    try:
        folder.mkdir(PRIVATE)
    except FileExistsError:
        if not folder.is_dir():
            raise


def find_exposure(folder: Path) -> str:
    """Return why another user could change or replace `folder`, or "" if none can.

    A folder that does not exist yet is as safe as the part of its path that exists.

    Raises
    ------
    OSError
        If a part of the path cannot be looked at, or is not a folder.
    """
    own_place = os.path.realpath(folder)
    for place, status in _places(folder):
        if problem := _ownership(place, status):
            return problem
        is_sticky = status.st_mode & stat.S_ISVTX and place != own_place  # as /tmp: others cannot rename what is ours
        if not stat.S_ISLNK(status.st_mode) and not is_sticky and _is_writable_by_others(status):
            return _writable(place, status)
    return ""


def find_exposed_file(folder: Path) -> str:
    """Return what below `folder` another user made, or could change, or "" if there is nothing of that kind.

    In a folder that only its owner can enter, permissions of files do not matter: compilers write them with the umask.
    """
    is_open = bool(folder.stat().st_mode & 0o077)
    for parent, folders, files in os.walk(folder, onerror=_raise):
        for name in (*folders, *files):
            place = os.path.join(parent, name)
            try:
                status = os.lstat(place)
            except FileNotFoundError:  # another process has just removed it
                continue
            if stat.S_ISLNK(status.st_mode):
                return f"{place} is a symbolic link"
            if problem := _ownership(place, status):
                return problem
            if is_open and _is_writable_by_others(status):
                return _writable(place, status)
    return ""


def _places(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each folder and symbolic link on the way to `folder`, from the root on, as far as they exist."""
    remaining, current, n_links = [*reversed(os.path.abspath(folder).split(os.sep)[1:])], os.sep, 0
    yield current, os.lstat(current)
    while remaining:
        name = remaining.pop()
        if name in ("", os.curdir):
            continue
        if name == os.pardir:
            current = os.path.dirname(current)
            continue
        place = os.path.join(current, name)
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            return
        yield place, status
        if not stat.S_ISLNK(status.st_mode):
            current = place
            continue
        n_links += 1
        if n_links > MAX_LINKS:
            raise OSError(f"too many symbolic links: {folder}")
        target = os.readlink(place)
        current = os.sep if os.path.isabs(target) else current
        remaining += reversed(target.split(os.sep))


def _ownership(place: str, status: os.stat_result) -> str:
    own = os.geteuid()
    return "" if status.st_uid in (0, own) else f"{place} belongs to user {status.st_uid}, not to user {own}"


def _writable(place: str, status: os.stat_result) -> str:
    return f"other users may write to {place} (mode {stat.S_IMODE(status.st_mode):o})"


def _is_writable_by_others(status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)


def _is_own_group(gid: int) -> bool:
    """Return whether a group is this user's private one, for which systems set the umask 002.

    As pam_umask decides: the primary group of a user other than root, of the same name. It must have no other members.
    """
    import grp
    import pwd

    if os.geteuid() == 0:
        return False
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    is_private = gid == user.pw_gid and group.gr_name == user.pw_name
    return is_private and all(member == user.pw_name for member in group.gr_mem)


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # which another process has just removed
        raise error

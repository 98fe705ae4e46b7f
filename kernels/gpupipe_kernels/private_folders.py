"""Detection of folders that other users can modify; compiled code and tables are loaded only from private ones.

Write access to such a folder means control over what this process runs. The rules are those of OpenSSH for its keys:
the folder and each of its parents must belong to this user or to root, and no other user may have write access.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

PRIVATE = 0o700
MAX_LINKS = 40  # the limit of Linux


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, accessible to this user only.

    Raise OSError if one of them cannot be created.
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
    """Return the reason why another user could modify or replace `folder`, or "" if none can.

    For a folder that does not exist yet, the existing part of its path is checked. Raise OSError if a part of the path
    cannot be inspected or is not a folder.
    """
    own_place = os.path.realpath(folder)
    for place, status in _places(folder):
        if problem := _ownership(place, status):
            return problem
        is_sticky = status.st_mode & stat.S_ISVTX and place != own_place  # as /tmp: others cannot rename it
        if not stat.S_ISLNK(status.st_mode) and not is_sticky and _is_writable_by_others(status):
            return _writable(place, status)
    return ""


def find_exposed_file(folder: Path) -> str:
    """Return a description of a file in `folder` that another user created or could modify, or "" if there is none.

    In a folder that only its owner can enter, file permissions do not matter: compilers create files with the umask.
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
    """Yield each existing folder and symbolic link on the path to `folder`, from the root on."""
    remaining = [*reversed(os.path.abspath(folder).split(os.sep)[1:])]
    current = os.sep
    n_links = 0
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
    return f"other users can write to {place} (mode {stat.S_IMODE(status.st_mode):o})"


def _is_writable_by_others(status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_own_group(status.st_gid)


def _is_own_group(gid: int) -> bool:
    """Return whether a group is this user's private group, for which systems set the umask 002.

    The rule of pam_umask: the primary group of a user other than root, with the same name. It must have no other
    members.
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

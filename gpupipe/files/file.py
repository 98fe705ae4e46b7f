"""Atomic writes of files. An existing file stays until its replacement is complete."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gpupipe.errors import ConfigError, LimitError
from gpupipe.files.disk import room_on
from gpupipe.files.policy import CAN_REPLACE, MODE, PRIVATE, set_mode
from gpupipe.system_errors import DISK, is_full

ROOM = "free disk space, or name an output on another disk"


@contextmanager
def replace_file(path: Path, is_private: bool = True) -> Iterator[BinaryIO]:
    """Yield a binary file that gets the name `path` if the block succeeds, and is removed if it fails.

    A private file has the permissions `MODE`, any other one those of the umask. A symbolic link at `path` is replaced,
    not followed. Without `CAN_REPLACE`, if `path` has come to exist meanwhile, raise ConfigError and keep the file as
    ``NAME.new-RANDOM``. Raise LimitError if the disk is full.
    """
    with room_on(path.parent, ROOM):
        draft, descriptor = _open_draft(path, PRIVATE if is_private else 0o666)
        try:
            with open(descriptor, "wb", closefd=False) as file:  # Arrow closes files that it has written
                yield file
            if is_private:
                set_mode(descriptor, MODE.get())
            os.fsync(descriptor)  # otherwise a power failure could leave the name without the content
            _publish(draft, path)
        finally:
            os.close(descriptor)
            draft.unlink(missing_ok=True)


def _open_draft(path: Path, mode: int) -> tuple[Path, int]:
    """Create a file with an unpredictable name next to `path`; return its path and descriptor."""
    draft = path.with_name(f".draft-{secrets.token_hex(8)}")  # short: `path` may have all 255 bytes
    return draft, os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _publish(draft: Path, path: Path) -> None:
    try:
        if CAN_REPLACE.get():
            draft.replace(path)
        else:
            os.link(draft, path)  # unlike a rename, it replaces nothing that has come to exist
    except FileExistsError:
        kept = path.with_name(f"{path.name}.new-{secrets.token_hex(3)}")
        draft.rename(kept)
        raise ConfigError(f"{path} already exists", fix=f"the complete output is in {kept}") from None
    except OSError:  # a file system without hard links
        draft.replace(path)


def write_text(path: Path, text: str, is_private: bool = True) -> None:
    """Write a UTF-8 text file atomically; see `replace_file`."""
    with replace_file(path, is_private) as file:
        file.write(text.encode("utf-8"))


def require_writable_file(path: Path) -> None:
    """Check that `path` can be written; called before any work.

    Raise ConfigError if its folder is missing or not writable; if `path` is a folder, a device, a pipe or a symbolic
    link; or if it exists, without `CAN_REPLACE`. Raise LimitError if not even an empty file fits on the disk.
    """
    try:
        _require_replaceable(path)
        if not path.parent.is_dir():
            what = f"no such folder: {path.parent}"
            raise ConfigError(what, where=str(path), fix="create it, or name another output")
        draft, descriptor = _open_draft(path, PRIVATE)
        os.close(descriptor)
        draft.unlink()
    except OSError as error:
        if is_full(error):
            raise LimitError(DISK.what, where=str(path), fix=ROOM) from error
        fix = "name a file in a writable folder"
        raise ConfigError(f"cannot write here: {error.strerror}", where=str(path), fix=fix) from error


def _require_replaceable(path: Path) -> None:
    """Raise ConfigError unless `path` is free, or a file that may be replaced."""
    if path.exists() and not path.is_dir() and not path.is_file():  # renaming would replace the device by a file
        raise ConfigError("expected a file; found a device or a pipe", where=str(path), fix="name a file")
    if path.is_symlink():
        what = f"{path} already exists: it is a symbolic link, which is never followed or replaced"
        raise ConfigError(what, fix=f"remove the link, or name its target: {os.readlink(path)}")
    if path.is_dir():
        raise ConfigError("expected a file; found a folder", where=str(path), fix="name a file, such as scores.csv")
    if path.exists() and not CAN_REPLACE.get():
        fix = "add --force to replace it, or choose another file with -o"
        raise ConfigError(f"{path} already exists", fix=fix)

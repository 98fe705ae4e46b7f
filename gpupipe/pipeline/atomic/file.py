"""Atomic writes of files. An existing file stays until its replacement is complete."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpupipe.errors import ConfigError, LimitError
from gpupipe.pipeline.atomic.disk import room_on
from gpupipe.pipeline.atomic.rename import sync
from gpupipe.system_errors import DISK, is_full

ROOM = "free disk space, or name an output on another disk"


def draft_name(path: Path) -> Path:
    """Return a hidden name in the folder of `path` that no other process uses."""
    return path.with_name(f".draft-{os.getpid()}-{secrets.token_hex(4)}")  # short: `path` may have all 255 bytes


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a draft path to write to; it replaces `path` if the block succeeds, and is removed if it fails.

    If `path` is a symbolic link, its target is replaced. Permissions of an existing file are kept. Raise LimitError if
    the disk is full.
    """
    target = Path(os.path.realpath(path))
    draft = draft_name(target)
    with room_on(target.parent, ROOM):
        try:
            yield draft
            if target.exists():
                shutil.copymode(target, draft)
            sync(draft)  # otherwise a power failure could leave the name without the content
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically; see `replace_file`."""
    with replace_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def require_writable_file(path: Path) -> None:
    """Check that `path` can be written or replaced; called before any work.

    Raise ConfigError if its folder is missing or not writable, or `path` is a folder, a device or a pipe; and
    LimitError if not even an empty file fits on the disk.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = _mode(target)
        if mode is None and not target.parent.is_dir():
            what = f"no such folder: {path.parent}"
            raise ConfigError(what, where=str(path), fix="create it, or name another output")
        if mode is not None and stat.S_ISDIR(mode):
            raise ConfigError("expected a file; found a folder", where=str(path), fix="name a file, such as scores.csv")
        if mode is not None and not stat.S_ISREG(mode):  # renaming would replace the device by a file
            raise ConfigError("expected a file; found a device or a pipe", where=str(path), fix="name a file")
        draft = draft_name(target)
        draft.touch()
        draft.unlink()
    except OSError as error:
        if is_full(error):
            raise LimitError(DISK.what, where=str(path), fix=ROOM) from error
        fix = "name a file in a writable folder"
        raise ConfigError(f"cannot write here: {error.strerror}", where=str(path), fix=fix) from error


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None

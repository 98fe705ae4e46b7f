"""Atomic writes of directories.

A directory is written into a draft next to its final path, ``.NAME.tmp-RANDOM``, and renamed when it is complete. A
draft contains:

``new``       the directory being written
``old``       the directory being replaced
``disposed``  the replaced directory while it is removed

Others cannot open a draft. Its files get the permissions `MODE` before it is renamed. The writing
process locks the draft. Later runs in the same folder remove drafts whose process has ended.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from gpupipe.errors import ConfigError
from gpupipe.files.drafts import is_draft, make_draft, remove, sweep
from gpupipe.files.policy import MODE
from gpupipe.files.rename import exchange, sync, sync_tree
from gpupipe.system_errors import is_full

DRAFT = re.compile(r"\.(.+)\.tmp-[0-9a-f]{16}")
NEW = "new"
OLD = "old"
DISPOSED = "disposed"
CHANGED = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)  # another process has changed the path
TRIES = 100  # to rename while other processes change the path
FIX = "name a directory that does not exist yet, or is empty"


class AtomicDirectory:
    """Context manager that writes a directory atomically. It may replace an empty directory.

    The subclass `RunDirectory` may also replace earlier runs.

    `final`: the final path.

    - `final`: the final path
    - `path`: where to write in the ``with`` block; equals `final` after it
    - `is_kept`: write the directory even if the ``with`` block raises; set in the block

    Raises
    ------
    ConfigError
        On entering and leaving the block, if `final` must not be replaced.
    """

    kind = "directory"

    def __init__(self, final: Path) -> None:
        self.final = Path(os.path.abspath(final))
        self.path = self.final
        self.is_kept = False
        self._draft = self.final
        self._lock = -1
        self._mode = MODE.get()

    def __enter__(self) -> Self:
        try:
            self.require_place()
            self.final.parent.mkdir(parents=True, exist_ok=True)
            self._sweep()
            self._draft, self._lock = make_draft(self.final.parent / f".{self.final.name}.tmp-")
            self.path = self._draft / NEW
            try:
                self.path.mkdir()
            except BaseException:
                self._close()
                raise
        except OSError as error:
            if is_full(error):
                raise
            fix = "name a directory whose parent is writable"
            raise ConfigError(f"cannot write here: {error.strerror}", where=str(self.final), fix=fix) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if error is None or self.is_kept:
                self._commit()
        finally:
            self._close()

    def _finish(self) -> None:
        """Write the last files, before the directory is renamed into place."""

    def _require_replaceable(self) -> None:
        """Raise ConfigError if the directory at `final` must not be replaced."""
        if any(self.final.iterdir()):
            raise self._refusal("it is not empty")

    def _is_disposable(self, replaced: Path) -> bool:
        """Return whether a replaced directory can be removed without loss."""
        return replaced.is_dir() and not any(replaced.iterdir())

    def _refusal(self, problem: str, fix: str = FIX) -> ConfigError:
        return ConfigError(f"cannot write the {self.kind}: {problem}", where=str(self.final), fix=fix)

    def require_place(self) -> None:
        """Raise ConfigError if `final` exists and must not be replaced."""
        final = self.final
        if final.is_symlink():
            raise self._refusal("it is a symbolic link")
        if not final.exists():
            return
        if not final.is_dir():
            raise self._refusal("it is a file")
        if final.is_mount():
            raise self._refusal("it is a mount point, which cannot be renamed", "name a directory inside it")
        if Path.cwd().is_relative_to(final):
            raise self._refusal("it is or contains the current directory", "name a directory inside it")
        with suppress(FileNotFoundError, NotADirectoryError):  # another process has just replaced it
            self._require_replaceable()

    def _commit(self) -> None:
        """Rename the written directory to its final path.

        If the final path has meanwhile become something that must not be replaced, the written directory is kept next
        to it as ``NAME.new-RANDOM``.
        """
        self._finish()
        sync_tree(self.path, self._mode)
        try:
            self._put_in_place()
        except ConfigError as error:
            kept = self.final.with_name(f"{self.final.name}.new-{secrets.token_hex(3)}")
            self.path.rename(kept)
            error.advise(f"the complete output is in {kept}")
            raise
        sync(self.final.parent)
        self.path = self.final

    def _put_in_place(self) -> None:
        """Rename the written directory to its final path; of several concurrent runs, the last one wins."""
        for _ in range(TRIES):
            try:
                self.path.rename(self.final)  # succeeds if the path is free or an empty directory
                return
            except OSError as error:
                if error.errno not in CHANGED:
                    raise
            self.require_place()
            try:
                self._replace()
                return
            except OSError as error:
                if error.errno not in CHANGED:
                    raise
        raise self._refusal("other processes keep changing it", "name another directory")

    def _replace(self) -> None:
        """Exchange the written directory and the one at `final`, which becomes ``old`` in the draft."""
        old = self._draft / OLD
        self.path.rename(old)
        try:
            if exchange(old, self.final):
                return
        except BaseException:
            old.rename(self.path)
            raise
        old.rename(self.path)
        self.final.rename(old)
        self.path.rename(self.final)

    def _close(self) -> None:
        try:
            self._clear(self._draft, self.final)
        finally:
            os.close(self._lock)

    def _sweep(self) -> None:
        """Remove drafts of killed runs in the parent folder."""
        for path in sorted(self.final.parent.iterdir()):
            if match := DRAFT.fullmatch(path.name):
                sweep(path, partial(self._clear, final=path.with_name(match[1])))

    def _clear(self, draft: Path, final: Path) -> None:
        """Remove a draft.

        A replaced directory is restored if its path is free. If files were added to it after the check, it is kept next
        to the new directory as ``NAME.earlier-RANDOM``.
        """
        if not is_draft(draft) or not os.path.lexists(draft / OLD) or self._settle(draft / OLD, final):
            remove(draft)

    def _settle(self, old: Path, final: Path) -> bool:
        """Restore a replaced directory, or move it out of the draft; return whether the draft can be removed."""
        try:
            if not os.path.lexists(final):
                old.rename(final)
            elif not self._is_disposable(old):
                old.rename(final.with_name(f"{final.name}.earlier-{secrets.token_hex(3)}"))
            else:  # if this run is killed now, the next one must not restore a half-removed directory
                old.rename(old.with_name(DISPOSED))
        except OSError:  # the next run tries again
            return False
        return True

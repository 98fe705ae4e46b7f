"""A directory that appears under its name complete or not at all.

It is written into a draft beside its place, ``.NAME.tmp-RANDOM``, and renamed when it is complete:

new   what is being written
old   the directory that is being replaced; ``disposed`` while it is removed

The process that writes a draft holds a lock on it. Later runs in the same folder remove drafts whose process has ended.
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
from gpupipe.pipeline.atomic.drafts import is_draft, make_draft, remove, sweep
from gpupipe.pipeline.atomic.rename import exchange, sync, sync_tree
from gpupipe.system_errors import is_full

DRAFT = re.compile(r"\.(.+)\.tmp-[0-9a-f]{16}")
NEW, OLD, DISPOSED = "new", "old", "disposed"
CHANGED = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)  # the name was just taken, or given up
TRIES = 100  # to be put in place while other runs are put there, too
FIX = "name a directory that does not exist yet, or is empty"


class AtomicDirectory:
    """A directory that is new, or replaces an empty one. See `RunDirectory` for one that replaces more.

    Parameters
    ----------
    final : Path
        Its name.

    Attributes
    ----------
    final : Path
    path : Path
        Where to write while the ``with`` block runs; `final` after it.

    Raises
    ------
    ConfigError
        If something at `final` must not be replaced: before any work, and again at the end.
    """

    kind = "directory"

    def __init__(self, final: Path) -> None:
        self.final = Path(os.path.abspath(final))
        self.path = self.final
        self._draft, self._lock = self.final, -1

    def __enter__(self) -> Self:
        try:
            self._require_place()
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
            fix = "name a directory whose parent can be written to"
            raise ConfigError(f"cannot write here: {error.strerror}", where=str(self.final), fix=fix) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if error is None:
                self._commit()
        finally:
            self._close()

    def _finish(self) -> None:
        """Write what comes last, before the directory is put in place."""

    def _require_replaceable(self) -> None:
        """Raise ConfigError if the directory at `final` must not be replaced."""
        if any(self.final.iterdir()):
            raise self._refusal("it is not empty")

    def _is_disposable(self, replaced: Path) -> bool:
        """Return whether what was replaced holds nothing that must be kept."""
        return replaced.is_dir() and not any(replaced.iterdir())

    def _refusal(self, problem: str, fix: str = FIX) -> ConfigError:
        return ConfigError(f"cannot write the {self.kind}: {problem}", where=str(self.final), fix=fix)

    def _require_place(self) -> None:
        """Raise ConfigError if what is at `final` must not become, or be replaced by, our directory."""
        final = self.final
        if final.is_symlink():
            raise self._refusal("it is a symbolic link")
        if not final.exists():
            return
        if not final.is_dir():
            raise self._refusal("it is a file")
        if final.is_mount():
            raise self._refusal("it is a mount point, which cannot be renamed; use a directory inside it")
        if Path.cwd().is_relative_to(final):
            raise self._refusal("it is the current directory, or holds it; use a directory inside it")
        with suppress(FileNotFoundError, NotADirectoryError):  # another process has just taken its place
            self._require_replaceable()

    def _commit(self) -> None:
        """Put the written directory under the final name, where no part of it is at any moment before.

        If something came to be there that must not be replaced, it is kept beside that, as ``NAME.new-RANDOM``.
        """
        self._finish()
        sync_tree(self.path)
        try:
            self._put_in_place()
        except ConfigError as error:
            kept = self.final.with_name(f"{self.final.name}.new-{secrets.token_hex(3)}")
            self.path.rename(kept)
            error.advise(f"what was written is complete, in {kept}")
            raise
        sync(self.final.parent)
        self.path = self.final

    def _put_in_place(self) -> None:
        """Rename the written directory to its final name; of several runs of one name the last one stays."""
        for _ in range(TRIES):
            try:
                self.path.rename(self.final)  # to a name that is free, or that of an empty directory
                return
            except OSError as error:
                if error.errno not in CHANGED:
                    raise
            self._require_place()
            try:
                self._replace()
                return
            except OSError as error:
                if error.errno not in CHANGED:
                    raise
        raise self._refusal("other processes keep changing it", "name another directory")

    def _replace(self) -> None:
        """Exchange the written directory and the one at `final`, which is ``old`` in the draft from then on."""
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
        """Clear the drafts of killed runs in the folder of this one."""
        for path in sorted(self.final.parent.iterdir()):
            if match := DRAFT.fullmatch(path.name):
                sweep(path, partial(self._clear, final=path.with_name(match[1])))

    def _clear(self, draft: Path, final: Path) -> None:
        """Remove a draft.

        What was being replaced is put back if its name is free. If somebody added to it after it was checked, it is
        kept beside the new directory, as ``NAME.earlier-RANDOM``.
        """
        if not is_draft(draft) or not os.path.lexists(draft / OLD) or self._settle(draft / OLD, final):
            remove(draft)

    def _settle(self, old: Path, final: Path) -> bool:
        """Put back, or aside, what must not be removed; return whether the draft can be."""
        try:
            if not os.path.lexists(final):
                old.rename(final)
            elif not self._is_disposable(old):
                old.rename(final.with_name(f"{final.name}.earlier-{secrets.token_hex(3)}"))
            else:  # so that the next run does not judge what is left, if this one is killed meanwhile
                old.rename(old.with_name(DISPOSED))
        except OSError:  # the next run tries again
            return False
        return True

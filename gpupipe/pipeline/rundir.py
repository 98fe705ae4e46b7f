"""The run directory: written under a hidden name beside its place, and renamed into it when all of it is there.

A run that fails or is killed leaves under the final name what was there before, or nothing. An earlier run changes
names with the new one in one step of the system. Where there is no such step (some network file systems) it is called
``.NAME.old-RANDOM`` for a moment. What is being written is ``.NAME.tmp-RANDOM``, locked by its process; later runs in
the same folder sweep those that have lost their process.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from gpupipe.errors import ConfigError
from gpupipe.pipeline.drafts import hold, make_draft, remove, sweep
from gpupipe.pipeline.jsonfile import write_json
from gpupipe.pipeline.renaming import exchange, sync, sync_tree

OURS = ("config.yaml", "metrics.json")  # a directory that has both was written by a run
HIDDEN = re.compile(r"\.(.+)\.(tmp|old)-[0-9a-f]{16}")
CHANGED = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)  # another has just taken the name, or given it up
TRIES = 100  # to be put in place while others are put there, too


def default_run_directory(output: Path, name: str) -> Path:
    """Return ``OUTPUT/NAME-YYYYmmdd-HHMMSS-ID``: local time and six random hexadecimal digits."""
    plain = re.sub(r"\$\{(\w+)\}", r"\1", name)  # of a name with secrets, which keeps the names of their variables
    safe = re.sub(r"[^\w.-]+", "-", plain).strip(".-") or "run"
    return Path(output) / f"{safe}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


class RunDirectory:
    """A directory that appears under its name complete, or not at all.

    Parameters
    ----------
    final : Path
        Its name. What exists there may be an empty directory or an earlier run, which is replaced.
    keep : bool
        Keep what a failed run wrote, as ``.NAME.failed-RANDOM``.

    Attributes
    ----------
    final : Path
    path : Path
        Where to write while the ``with`` block runs; `final` after it.
    kept : Path, optional
        What a failed run left, with `keep`.

    Raises
    ------
    ConfigError
        If `final` is something that must not be replaced; before any work, and again at the end.
    """

    def __init__(self, final: Path, *, keep: bool = False) -> None:
        self.final = Path(os.path.abspath(final))
        self.keep = keep
        self.kept: Path | None = None
        self.path = self.final
        self._lock = -1

    def __enter__(self) -> RunDirectory:
        try:
            _require_replaceable(self.final)
            self.final.parent.mkdir(parents=True, exist_ok=True)
            sweep_leftovers(self.final.parent)
            self.path, self._lock = make_draft(self._hidden("tmp"))
        except OSError as error:
            fix = "name a directory whose parent can be written to"
            raise ConfigError(f"cannot write here: {error.strerror}", where=str(self.final), fix=fix) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if error is None:
                self._commit()
        finally:
            if self.path != self.final:
                self._discard()
            os.close(self._lock)

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file: keys in the order given, NaN as null."""
        write_json(self.path / name, value)

    def write_text(self, name: str, text: str) -> None:
        """Write a UTF-8 text file."""
        (self.path / name).write_text(text, encoding="utf-8")

    def _hidden(self, kind: str) -> Path:
        return self.final.parent / f".{self.final.name}.{kind}-"

    def _commit(self) -> None:
        """Put the written directory under the final name; at no instant is a part of it there."""
        _require_replaceable(self.final)
        sync_tree(self.path)
        old = self._put_in_place()
        sync(self.final.parent)
        self.path = self.final
        if old is not None:
            remove(old)  # the run is safe; what is left goes at the next start

    def _put_in_place(self) -> Path | None:
        """Rename the written directory to its final name; return where an earlier one is now.

        Others may do the same with the same name at the same time: the last one stays.
        """
        for _ in range(TRIES):
            try:
                if not self.final.exists():
                    self.path.rename(self.final)
                    return None
                return self.path if exchange(self.path, self.final) else self._in_two_steps()
            except OSError as error:
                if error.errno not in CHANGED:
                    raise
        raise ConfigError("others change this directory all the time", where=str(self.final), fix="name another")

    def _in_two_steps(self) -> Path:
        old = Path(f"{self._hidden('old')}{secrets.token_hex(8)}")
        lock = hold(self.final)  # so that nobody puts it back meanwhile
        try:
            self.final.rename(old)
            try:
                self.path.rename(self.final)
            except BaseException:
                old.rename(self.final)
                raise
        finally:
            if lock is not None:
                os.close(lock)
        return old

    def _discard(self) -> None:
        if not self.keep:
            remove(self.path)
            return
        self.kept = self.path.with_name(self.path.name.replace(".tmp-", ".failed-"))
        self.path.rename(self.kept)


def sweep_leftovers(folder: Path) -> None:
    """Clear what killed runs left in a folder of runs; one that was just being replaced is put back if it can be.

    Only names of exactly our pattern are touched, and only where no living process has them.
    """
    for entry in sorted(folder.iterdir()):
        match = HIDDEN.fullmatch(entry.name)
        if match is None:
            continue
        final = folder / match[1]
        sweep(entry, _put_back(final) if match[2] == "old" and not final.exists() else None)


def _put_back(final: Path) -> Callable[[Path], None]:
    def put(old: Path) -> None:
        with suppress(OSError):  # another was faster
            old.rename(final)

    return put


def _require_replaceable(final: Path) -> None:
    problem = _problem_with(final)
    if problem:
        fix = "name a directory that does not exist yet, is empty, or holds an earlier run"
        raise ConfigError(f"cannot write the run directory: {problem}", where=str(final), fix=fix)


def _problem_with(final: Path) -> str:
    """Say why `final` must not become (or be replaced by) a run directory, or ""."""
    if final.is_symlink():
        return "it is a symbolic link"
    if not final.exists():
        return ""
    if not final.is_dir():
        return "it is a file"
    if final.is_mount():
        return "it is a mount point, which cannot be renamed; use a directory inside it"
    if Path.cwd().is_relative_to(final):
        return "it is the current directory, or holds it; use a directory inside it"
    if any(final.iterdir()) and not all((final / name).is_file() for name in OURS):
        return "it exists and is no run directory of ours"
    return ""

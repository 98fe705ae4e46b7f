"""The run directory: written under a hidden name beside its place, and renamed into it when all of it is there.

A run that fails or is killed leaves under the final name what was there before, or nothing. Two hidden names are used,
both of this machine's process: ``.NAME.tmp-PID-RANDOM`` is being written, ``.NAME.old-PID-RANDOM`` is the directory
that is just being replaced.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from gpupipe.errors import ConfigError
from gpupipe.pipeline.jsonfile import write_json

OURS = ("config.yaml", "metrics.json")  # a directory that has both was written by a run


def default_run_directory(output: Path, name: str) -> Path:
    """Return ``OUTPUT/NAME-YYYYmmdd-HHMMSS-ID``: local time and six random hexadecimal digits."""
    safe = re.sub(r"[^\w.-]+", "-", name).strip(".-") or "run"
    return Path(output) / f"{safe}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


class RunDirectory:
    """A directory that appears under its name complete, or not at all.

    Parameters
    ----------
    final : Path
        Its name. What exists there may be an empty directory or an earlier run, which is replaced.
    keep : bool
        Keep what a failed run wrote, as ``.NAME.failed-PID-RANDOM``.

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
        self._id = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.path = self._hidden("tmp")

    def __enter__(self) -> RunDirectory:
        _require_replaceable(self.final)
        try:
            self.final.parent.mkdir(parents=True, exist_ok=True)
            clean_stale(self.final)
            self.path.mkdir()
        except OSError as error:
            fix = "name a directory whose parent can be written to"
            raise ConfigError(f"cannot write here: {error.strerror}", where=str(self.final), fix=fix) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            try:
                self._commit()
            except BaseException:
                self._discard()
                raise
        else:
            self._discard()

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file: keys in the order given, NaN as null."""
        write_json(self.path / name, value)

    def write_text(self, name: str, text: str) -> None:
        """Write a UTF-8 text file."""
        (self.path / name).write_text(text, encoding="utf-8")

    def _hidden(self, kind: str) -> Path:
        return self.final.parent / f".{self.final.name}.{kind}-{self._id}"

    def _commit(self) -> None:
        """Put the written directory under the final name; at no instant is a part of it there."""
        _require_replaceable(self.final)
        _sync_tree(self.path)
        old = self._hidden("old")
        replaced = self.final.exists()
        if replaced:
            self.final.rename(old)
        try:
            self.path.rename(self.final)
        except BaseException:
            if replaced:
                old.rename(self.final)
            raise
        _sync(self.final.parent)
        self.path = self.final
        if replaced:
            shutil.rmtree(old, ignore_errors=True)  # the run is safe; what is left goes at the next start

    def _discard(self) -> None:
        if self.keep and self.path.exists():
            self.kept = self._hidden("failed")
            self.path.rename(self.kept)
        elif self.path != self.final:
            shutil.rmtree(self.path, ignore_errors=True)


def clean_stale(final: Path) -> None:
    """Clear what killed runs left beside `final`; a directory that was just being replaced is put back if it can be.

    Only names of exactly our pattern are touched, and only where no process of that number is alive on this machine.
    """
    pattern = re.compile(rf"\.{re.escape(final.name)}\.(tmp|old)-([1-9]\d*)-[0-9a-f]{{8}}")
    for entry in sorted(final.parent.iterdir()):
        match = pattern.fullmatch(entry.name)
        if not match or entry.is_symlink() or not entry.is_dir() or _is_alive(int(match[2])):
            continue
        if match[1] == "old" and not final.exists():
            entry.rename(final)
        else:
            shutil.rmtree(entry, ignore_errors=True)


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


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _sync_tree(folder: Path) -> None:
    """Bring all files and directories below to the disk, so that no rename outlives its content in a power cut."""
    for parent, _, files in os.walk(folder):
        for name in files:
            _sync(Path(parent) / name)
        _sync(Path(parent))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

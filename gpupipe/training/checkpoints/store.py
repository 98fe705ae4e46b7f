"""Checkpoint folder: ``.checkpoints`` next to the run directories.

A result is a directory in the format of a model, named by its key. The state of an unfinished training is a file
``KEY.pt``, the trials of a search are a SQLite file ``KEY.db``, the ids of tracked runs a file ``KEY.tracked``. All are
removed when a run that used them succeeds, or when they are a week old.

Results are written atomically, so that concurrent runs can share the folder. A run recomputes results that another run
has just removed. Files of other programs in the folder are never touched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.artifact.manifest import load as load_manifest
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.files.disk import room_on
from gpupipe.files.drafts import is_stale, make_draft, remove, sweep
from gpupipe.files.rename import sync, sync_tree
from gpupipe.system_errors import TAKEN
from gpupipe.training.checkpoints.keys import CheckpointKey

FOLDER = ".checkpoints"
DRAFT = ".draft-"
DRAFT_NAME = re.compile(r"\.draft-[0-9a-f]{16}")
RESULT_NAME = re.compile(r"[0-9a-f]{32}")
STATE_NAME = re.compile(r"[0-9a-f]{32}\.(refit\.)?(pt|db|db-journal|tracked|\d+\.tmp|probe)")
NEW, OLD = "new", "old"  # in a draft
DAMAGE = (ArtifactError, OSError, KeyError, TypeError, ValueError)  # raised on reading a corrupt result
TRIES = 10
Read = TypeVar("Read")


@dataclass
class CheckpointStore:
    """Folder of checkpoints, shared with interrupted runs.

    The folder is created with the first checkpoint; None: nothing is saved. If `resume`, checkpoints of interrupted
    runs are loaded. `used` has the keys that this run has loaded or saved.
    """

    folder: Path | None = None
    resume: bool = False
    used: set[str] = field(default_factory=set)

    @classmethod
    @contextmanager
    def for_run(cls, run: Path, resume: bool) -> Iterator[CheckpointStore]:
        """Yield the store for a run directory; if the run succeeds, remove the checkpoints that it used.

        Nothing is saved if the folder exists and is not writable.
        """
        folder = run.absolute().parent / FOLDER
        store = cls(folder if not os.path.exists(folder) or os.access(folder, os.W_OK | os.X_OK) else None, resume)
        store.sweep()
        yield store
        store.clear()

    def load(self, key: CheckpointKey, read: Callable[[ArtifactReader], Read]) -> tuple[Read | None, str]:
        """Return the result saved under a key, or None and the reason.

        Files are parsed only if their hashes match. A corrupt result is removed.
        """
        if self.folder is None or not self.resume:
            return None, ""
        path = self.folder / key.name
        if not path.is_dir():
            return None, self._why_not(key)
        try:
            found = read(ArtifactReader(path))
        except DAMAGE as error:
            _discard(path)
            return None, f"recomputed, because the checkpoint is corrupt: {str(error).splitlines()[0]}"
        self.used.add(key.name)
        return found, ""

    def save(self, key: CheckpointKey, write: Callable[[Path], None]) -> None:
        """Save a result unless it exists: `write` fills an empty directory.

        Raise LimitError if the disk is full.
        """
        self.used.add(key.name)
        if self.folder is None or (self.folder / key.name).exists():
            return
        with room_on(self.folder.parent, "free disk space, then continue with --resume: earlier checkpoints are kept"):
            self._write(self.folder, key.name, write)

    def state_file(self, key: CheckpointKey, suffix: str = "pt") -> Path | None:
        """Return the path for the state of an unfinished training, search ("db") or tracked run ("tracked")."""
        if self.folder is None:
            return None
        self.used.add(key.name)
        return self.folder / f"{key.name}.{suffix}"

    def clear(self) -> None:
        """Remove the checkpoints that this run used; those of other runs stay."""
        if self.folder is None or not self.folder.is_dir():
            return
        for name in self.used:
            _discard(self.folder / name)
            for file in self.folder.glob(f"{name}.*"):  # including half-written files of killed runs
                if _is_state(file):
                    file.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            self.folder.rmdir()

    def sweep(self) -> None:
        """Remove half-written files of killed runs, and checkpoints older than a week."""
        if self.folder is None or not self.folder.is_dir():
            return
        for path in sorted(self.folder.iterdir()):
            if DRAFT_NAME.fullmatch(path.name):
                sweep(path)
            elif is_stale(path) and _is_state(path):
                path.unlink(missing_ok=True)
            elif is_stale(path):
                _discard(path)
        with suppress(OSError):
            self.folder.rmdir()

    def _write(self, folder: Path, name: str, write: Callable[[Path], None]) -> None:
        draft, lock = _draft(folder)
        try:
            (draft / NEW).mkdir()
            write(draft / NEW)
            sync_tree(draft / NEW)
            (draft / NEW).rename(folder / name)
            sync(folder)
        except OSError as error:
            if error.errno not in TAKEN:  # another run has just saved the same result
                raise
        finally:
            remove(draft)
            os.close(lock)

    def _why_not(self, key: CheckpointKey) -> str:
        """Return why there is no result for a key: what has changed since a stage of that name was saved."""
        for path in sorted(self.folder.iterdir()) if self.folder is not None and self.folder.is_dir() else ():
            with suppress(*DAMAGE):
                manifest = load_manifest(path)[0] if path.is_dir() and not path.name.startswith(DRAFT) else {}
                if manifest.get("stage") == key.stage:
                    return f"recomputed, because of changes to {', '.join(key.changed(manifest['parts']))}"
        return "no checkpoint, so computed from the start"


def _draft(folder: Path) -> tuple[Path, int]:
    for _ in range(TRIES):
        with suppress(FileNotFoundError):  # another run has just removed the folder
            folder.mkdir(0o700, parents=True, exist_ok=True)
            return make_draft(folder / DRAFT)
    raise ConfigError("another process keeps deleting this directory", where=str(folder), fix="name another --output")


def _discard(path: Path) -> None:
    """Remove a result atomically; leave any other path alone."""
    if not _is_result(path):
        return
    with suppress(OSError):  # another run has just removed it
        draft, lock = make_draft(path.parent / DRAFT)
        try:
            path.rename(draft / OLD)
        finally:
            remove(draft)
            os.close(lock)


def _is_result(path: Path) -> bool:
    """Return whether a path is a result: a directory named by a key, with a manifest that may be corrupt."""
    return bool(RESULT_NAME.fullmatch(path.name)) and not path.is_symlink() and (path / MANIFEST).is_file()


def _is_state(path: Path) -> bool:
    """Return whether a path is the state of a training, complete or half-written."""
    return bool(STATE_NAME.fullmatch(path.name)) and not path.is_symlink() and path.is_file()

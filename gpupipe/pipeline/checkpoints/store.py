"""The folder of checkpoints: ``.checkpoints``, beside the run directories.

A result is a directory of files, hashed as those of a model are, and named by its key; the state of a training that is
not over is a file ``KEY.pt``. Both outlive a run that fails or is killed, and go when a run that used them succeeds,
or a week after they were made. A result appears whole or not at all, so that several runs may share a folder; one that
needs what another has just cleared away makes it again. Files of other programs in a folder of that name stay.
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
from gpupipe.pipeline.atomic.disk import room_on
from gpupipe.pipeline.atomic.drafts import is_stale, make_draft, remove, sweep
from gpupipe.pipeline.atomic.rename import sync, sync_tree
from gpupipe.pipeline.checkpoints.keys import CheckpointKey
from gpupipe.system_errors import TAKEN

FOLDER = ".checkpoints"
DRAFT = ".draft-"
DRAFT_NAME = re.compile(r"\.draft-[0-9a-f]{16}")
RESULT_NAME = re.compile(r"[0-9a-f]{32}")
STATE_NAME = re.compile(r"[0-9a-f]{32}\.(pt|\d+\.tmp|probe)")
NEW, OLD = "new", "old"  # in a draft
DAMAGE = (ArtifactError, OSError, KeyError, TypeError, ValueError)  # what reading a damaged result may raise
TRIES = 10
Read = TypeVar("Read")


@dataclass
class CheckpointStore:
    """Checkpoints in a folder: those of this run, and of interrupted runs.

    Attributes
    ----------
    folder : Path, optional
        Created with the first checkpoint; None: nothing is saved.
    resume : bool
        Whether checkpoints of interrupted runs are loaded.
    used : set of str
        The keys of this run.
    """

    folder: Path | None = None
    resume: bool = False
    used: set[str] = field(default_factory=set)

    @classmethod
    @contextmanager
    def beside(cls, run: Path, resume: bool) -> Iterator[CheckpointStore]:
        """Yield the store of the folder that a run directory is in; if the run succeeds, what it used is cleared.

        Where the folder is another user's, nothing is kept.
        """
        folder = run.absolute().parent / FOLDER
        store = cls(folder if not os.path.exists(folder) or os.access(folder, os.W_OK | os.X_OK) else None, resume)
        store.sweep()
        yield store
        store.clear()

    def load(self, key: CheckpointKey, read: Callable[[ArtifactReader], Read]) -> tuple[Read | None, str]:
        """Return the result that was saved under a key, or None and the reason.

        Nothing is parsed whose hash is not the one that was written. What is damaged is removed.
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
            return None, f"what was kept is damaged, so it is made anew: {str(error).splitlines()[0]}"
        self.used.add(key.name)
        return found, ""

    def save(self, key: CheckpointKey, write: Callable[[Path], None]) -> None:
        """Save a result unless it is there already: `write` fills an empty directory.

        Raises
        ------
        LimitError
            If the disk is full.
        """
        self.used.add(key.name)
        if self.folder is None or (self.folder / key.name).exists():
            return
        with room_on(self.folder.parent, "make room, then go on with --resume: what was kept so far is there"):
            self._write(self.folder, key.name, write)

    def state_file(self, key: CheckpointKey) -> Path | None:
        """Return the file for the state of a training that is not over."""
        if self.folder is None:
            return None
        self.used.add(key.name)
        return self.folder / f"{key.name}.pt"

    def clear(self) -> None:
        """Remove what this run has used; what others have kept stays."""
        if self.folder is None or not self.folder.is_dir():
            return
        for name in self.used:
            _discard(self.folder / name)
            for file in self.folder.glob(f"{name}.*"):  # and what a kill has left half written
                if _is_state(file):
                    file.unlink(missing_ok=True)
        with suppress(OSError):  # there is more in it
            self.folder.rmdir()

    def sweep(self) -> None:
        """Remove what killed runs have left half written, and what nobody has come back for."""
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
            if error.errno not in TAKEN:  # another run was faster, with the same result
                raise
        finally:
            remove(draft)
            os.close(lock)

    def _why_not(self, key: CheckpointKey) -> str:
        """Return why there is no result for a key: of the stage of that name, what has changed since."""
        for path in sorted(self.folder.iterdir()) if self.folder is not None and self.folder.is_dir() else ():
            with suppress(*DAMAGE):
                manifest = load_manifest(path)[0] if path.is_dir() and not path.name.startswith(DRAFT) else {}
                if manifest.get("stage") == key.stage:
                    return f"not taken up, since this has changed: {', '.join(key.changed(manifest['parts']))}"
        return "nothing of it was kept, so from the start"


def _draft(folder: Path) -> tuple[Path, int]:
    for _ in range(TRIES):
        with suppress(FileNotFoundError):  # the run that had the folder has just cleared and removed it
            folder.mkdir(parents=True, exist_ok=True)
            return make_draft(folder / DRAFT)
    raise ConfigError("others remove this directory all the time", where=str(folder), fix="name another --output")


def _discard(path: Path) -> None:
    """Remove a result, at once as far as others see; what is not a result stays."""
    if not _is_result(path):
        return
    with suppress(OSError):  # another was faster
        draft, lock = make_draft(path.parent / DRAFT)
        try:
            path.rename(draft / OLD)
        finally:
            remove(draft)
            os.close(lock)


def _is_result(path: Path) -> bool:
    """Return whether a path is a result: named by a key, and with a manifest, damaged or not."""
    return bool(RESULT_NAME.fullmatch(path.name)) and not path.is_symlink() and (path / MANIFEST).is_file()


def _is_state(path: Path) -> bool:
    """Return whether a path is the state of a training, or a half-written one."""
    return bool(STATE_NAME.fullmatch(path.name)) and not path.is_symlink() and path.is_file()

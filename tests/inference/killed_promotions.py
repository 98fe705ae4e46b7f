"""Kill a promotion or rollback before each of its changes of the disk, in a copy of the folder for each.

``python -m tests.inference.killed_promotions FOLDER ACTION CHALLENGER SCRATCH`` prints a line for each kill: the
current generation after it, and after a second attempt that is not killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import gpupipe.inference.parity.replay  # noqa: F401 - imported before the forks
from gpupipe.artifact import ArtifactReader
from gpupipe.inference.promotion import promote, rollback
from gpupipe.model_parts.folder import model_folder

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.link", "os.symlink"}
WRITES = os.O_WRONLY | os.O_RDWR


def in_child(act: Callable[[], object], n_changes: int = 0) -> bool:
    """Return whether `act` ends in a forked process, which is killed before its change number `n_changes`, if not 0."""
    child = os.fork()
    if child == 0:
        seen = 0

        def count(event: str, details: tuple[object, ...]) -> None:
            nonlocal seen
            if event in CHANGES or (event == "open" and isinstance(details[2], int) and details[2] & WRITES):
                seen += 1
                if seen == n_changes:
                    os.kill(os.getpid(), signal.SIGKILL)

        if n_changes:
            sys.addaudithook(count)
        act()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status == 0


def current(folder: Path) -> str:
    """Return the current generation, whose files are intact."""
    return ArtifactReader(model_folder(folder)).folder.name


def main(source: Path, action: str, challenger: Path, scratch: Path) -> None:
    """Kill before the first change, the second, and so on, until nothing is left to kill."""
    n_changes, is_killed = 0, True
    while is_killed:
        n_changes += 1
        folder = Path(shutil.copytree(source, scratch / str(n_changes)))

        def act(folder: Path = folder) -> object:
            if action == "promote":
                return promote(folder, challenger, "cpu")
            return rollback(folder, "1")

        is_killed = not in_child(act, n_changes)
        left = current(folder)
        assert in_child(act)
        print(left, current(folder), *sorted(path.name for path in (*folder.iterdir(), *folder.glob("generations/*"))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))

"""Run directory: complete or absent, and replaced only if it contains nothing but the files of an earlier run.

``run.json`` marks it and lists the files of the run with their hashes.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.files.directory import TRIES, AtomicDirectory
from gpupipe.files.jsonfile import write_json
from gpupipe.names import enumerate_names
from gpupipe.units import MIB

NAME = "run.json"
FORMAT, FORMAT_VERSION = "gpupipe-run", 1
MAX_BYTES = 16 * MIB
MOVE = "move these files elsewhere, or choose another --output"
NEW_NAME = (
    "choose another --output, or delete the directory if nothing in it is needed; "
    f"run directories without {NAME}, written by early versions of gpupipe, are not replaced either"
)


def default_run_directory(output: Path, name: str) -> Path:
    """Return ``OUTPUT/NAME-YYYYmmdd-HHMMSS-ID`` with local time and six random hexadecimal digits."""
    plain = re.sub(r"\$\{(\w+)\}", r"\1", name)  # ${NAME} of an environment variable becomes NAME
    safe = re.sub(r"[^\w.-]+", "-", plain).strip(".-") or "run"
    return Path(output) / f"{safe}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


class RunDirectory(AtomicDirectory):
    """Directory of a run, which replaces an empty directory or an earlier run of the same name.

    An earlier run is replaced only if it contains exactly the files listed in its ``run.json``, unchanged. The two
    directories are exchanged atomically if the file system supports it.

    See `AtomicDirectory` for parameters, attributes and errors.
    """

    kind = "run directory"

    def _finish(self) -> None:
        write_run_file(self.path)

    def _require_replaceable(self) -> None:
        for _ in range(TRIES):
            before = self.final.stat()
            problem, fix = find_foreign(self.final)
            if not problem:
                return
            after = self.final.stat()
            if (before.st_dev, before.st_ino) == (after.st_dev, after.st_ino):  # else another run has just replaced it
                raise self._refusal(problem, fix)

    def _is_disposable(self, replaced: Path) -> bool:
        try:
            return find_foreign(replaced) == ("", "")
        except OSError:  # not a directory
            return False


def write_run_file(folder: Path) -> None:
    """Write ``run.json`` into a complete run directory."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / NAME)
    files = {path.relative_to(folder).as_posix(): _describe(path) for path in paths}
    write_json(folder / NAME, {"format": FORMAT, "format_version": FORMAT_VERSION, "files": files})


def find_foreign(folder: Path) -> tuple[str, str]:
    """Return why a directory contains, or may contain, files that no run wrote, and what to do; ("", "") if not.

    The directory is opened once, so that all checks see the same directory even if its name changes meanwhile. Raise
    OSError if it does not exist, or cannot be read.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not os.listdir(opened):
            return "", ""
        written = _read(opened)
        if written is None:
            return f"it exists and has no valid {NAME}, so it may not be a run directory", NEW_NAME
        added, changed = _differences(opened, written)
    finally:
        os.close(opened)
    problems = [f"it contains files that the earlier run did not write: {enumerate_names(added, 3)}"] if added else []
    problems += [f"files of the earlier run have changed: {enumerate_names(changed, 3)}"] if changed else []
    return ("; ".join(problems), MOVE) if problems else ("", "")


def _differences(opened: int, written: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the added and the changed files of an opened run directory."""
    added, changed = [], []
    for parent, folders, files, at in os.fwalk(".", dir_fd=opened):
        for name in (*folders, *files):
            path = os.path.normpath(os.path.join(parent, name))
            try:
                mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) or path == NAME:
                    continue
                if path not in written or not stat.S_ISREG(mode):
                    added.append(os.fsencode(path).decode("utf8", "replace"))
                elif _describe(name, at) != written[path]:
                    changed.append(path)
            except FileNotFoundError:  # another process is removing it
                continue
    return sorted(added), sorted(changed)


def _describe(path: str | Path, at: int | None = None) -> dict[str, Any]:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=at), "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"sha256": digest, "bytes": os.fstat(file.fileno()).st_size}


def _read(opened: int) -> dict[str, Any] | None:
    """Return the files listed in run.json of an opened directory; None if it is missing or not written by gpupipe."""
    try:
        descriptor = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened)
        with open(descriptor, "rb") as file:
            found = parse_json(file.read(MAX_BYTES))
    except (OSError, ValueError):
        return None
    is_ours = isinstance(found, dict) and (found.get("format"), found.get("format_version")) == (FORMAT, FORMAT_VERSION)
    files = found.get("files") if is_ours else None
    return files if isinstance(files, dict) else None

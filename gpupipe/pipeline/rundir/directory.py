"""The run directory, which may replace an earlier run: one that holds nothing but what that run wrote."""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from pathlib import Path
from typing import Any

from gpupipe.pipeline.atomic.directory import TRIES, AtomicDirectory
from gpupipe.pipeline.jsonfile import write_json
from gpupipe.pipeline.rundir.files import find_foreign, write_run_file


def default_run_directory(output: Path, name: str) -> Path:
    """Return ``OUTPUT/NAME-YYYYmmdd-HHMMSS-ID``: local time and six random hexadecimal digits."""
    plain = re.sub(r"\$\{(\w+)\}", r"\1", name)  # of a name with secrets, which keeps the names of their variables
    safe = re.sub(r"[^\w.-]+", "-", plain).strip(".-") or "run"
    return Path(output) / f"{safe}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


class RunDirectory(AtomicDirectory):
    """A directory of a run: new, or in place of an empty one or of an earlier run.

    An earlier run is replaced only if it holds the files that its ``run.json`` lists, unchanged, and nothing else.
    The two change names in one step where the file system has such a step.

    See `AtomicDirectory` for parameters, attributes and errors.
    """

    kind = "run directory"

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file: keys in the order given, NaN as null."""
        write_json(self.path / name, value)

    def write_text(self, name: str, text: str) -> None:
        """Write a UTF-8 text file."""
        (self.path / name).write_text(text, encoding="utf-8")

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
        except OSError:  # not even a directory
            return False

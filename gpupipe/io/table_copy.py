"""Copy of a table that is stored elsewhere, in a temporary Parquet file of this process."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREFIX = "gpupipe-rows-"


@dataclass(frozen=True)
class TableCopy:
    """Table that a file is a copy of.

    - `label`: the table, without secrets
    - `pin`: the state of the table: two copies of a table with equal pins have equal rows in the same order
    - `settings`: settings of the configuration that read the same state again, such as the version of a Delta table
    - `unusable`: columns that were not copied, with a description of their values
    - `folder`: owner of the file; None in other processes
    """

    label: str
    pin: str
    n_rows: int
    settings: Mapping[str, int] = field(default_factory=dict)
    unusable: Mapping[str, str] = field(default_factory=dict)
    folder: CopyFolder | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.label}: {self.n_rows:,} rows, {self.pin}"


class CopyFolder:
    """Temporary folder, removed when nothing refers to this object, at the latest when the process exits."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._remove = weakref.finalize(self, _remove, self.path, os.getpid())

    def remove(self) -> None:
        """Remove the folder now."""
        self._remove()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as None: the process that made the folder removes it."""
        return _no_folder, ()


def _no_folder() -> None:
    return None


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:  # not in a forked child
        shutil.rmtree(path, ignore_errors=True)

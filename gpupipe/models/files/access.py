"""The files that a trained model is loaded from, by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class ModelFiles(Protocol):
    """Files of one folder, as `gpupipe.artifact.ArtifactReader` reads them."""

    @property
    def folder(self) -> Path:
        """The folder, for messages."""

    def names(self) -> tuple[str, ...]:
        """Return the names of the files, sorted."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""


@dataclass(frozen=True)
class FolderFiles:
    """The files of a folder, unchecked: for what this process has just written itself."""

    folder: Path

    def names(self) -> tuple[str, ...]:
        """Return the names of the files, sorted."""
        return tuple(sorted(path.name for path in self.folder.iterdir() if path.is_file()))

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self.folder / name).read_bytes()

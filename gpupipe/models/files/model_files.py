"""Files that a trained model is read from."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class ModelFiles(Protocol):
    """The files of a model directory, such as those of `gpupipe.artifact.ArtifactReader`."""

    @property
    def folder(self) -> Path:
        """The directory."""

    def names(self) -> tuple[str, ...]:
        """Return the names of the files."""

    def path(self, name: str) -> Path:
        """Return the path of a file, for messages."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""


class PrefixedFiles:
    """The files of a directory whose names start with a prefix, under their names without it."""

    def __init__(self, files: ModelFiles, prefix: str) -> None:
        self._files, self._prefix = files, prefix

    @property
    def folder(self) -> Path:
        """The directory."""
        return self._files.folder

    def names(self) -> tuple[str, ...]:
        """Return the names of the files."""
        prefix = self._prefix
        return tuple(name.removeprefix(prefix) for name in self._files.names() if name.startswith(prefix))

    def path(self, name: str) -> Path:
        """Return the path of a file, for messages."""
        return self._files.path(self._prefix + name)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return self._files.read(self._prefix + name)

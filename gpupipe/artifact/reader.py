"""Open a model directory: every byte is checked against the manifest before any parser sees it.

Parsers are given the bytes that were hashed, never a path that could lead to other bytes by then.
"""

from __future__ import annotations

import hashlib
import os
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact import manifest
from gpupipe.artifact.untrusted.archives import read_arrays
from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.errors import ArtifactError

if TYPE_CHECKING:
    import numpy as np


class ArtifactReader:
    """A model directory whose files are all present, unaltered and listed.

    Parameters
    ----------
    folder : Path

    Attributes
    ----------
    folder : Path
    manifest : dict
        The values of manifest.json.
    manifest_bytes : bytes
        Its content.

    Raises
    ------
    ArtifactError
        If a file is missing, altered, unlisted or no plain file, or the format is of another version; the message names
        the file. From the methods, if there is no such part or it does not parse.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.manifest, self.manifest_bytes = manifest.load(self.folder)
        self._files: dict[str, dict[str, Any]] = self.manifest["files"]
        self._check_listing()
        for name in self._files:
            self._check_file(name)

    def names(self) -> tuple[str, ...]:
        """Return the names of the parts, sorted."""
        return tuple(self._files)

    def json(self, name: str) -> Any:
        """Return the values of a JSON part."""
        try:
            return parse_json(self.read(name))
        except ValueError as error:
            raise manifest.refuse(self.folder / name, f"does not parse as JSON: {error}") from error

    def arrays(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of an npz part; nothing in it is ever unpickled."""
        try:
            return read_arrays(self.read(name))
        except ValueError as error:
            raise manifest.refuse(self.folder / name, f"does not parse as npz: {error}") from error

    def read(self, name: str) -> bytes:
        """Return the bytes of a part, of which the sha256 was computed: a file that is replaced meanwhile is refused.

        Raises
        ------
        ArtifactError
            If there is no such part, or its bytes are no longer those of the manifest.
        """
        if name not in self._files:
            what = f"there is no {name} in this model"
            raise ArtifactError(what, where=str(self.folder), fix=f"its parts are {', '.join(self._files)}")
        with self._open(name) as file:
            content = file.read(self._files[name]["bytes"] + 1)  # not more, whatever the file is by now
        if hashlib.sha256(content).hexdigest() != self._files[name]["sha256"]:
            raise manifest.refuse(self.folder / name, "has changed since the model was opened: its sha256 is another")
        return content

    def _check_listing(self) -> None:
        listed = {manifest.NAME, *self._files}
        for path in sorted(self.folder.iterdir()):
            if path.is_symlink() or not path.is_file():
                raise manifest.refuse(path, "is no plain file")
            if path.name not in listed:
                fix = "remove it, if it was put there by hand; a model directory holds its own files only"
                raise ArtifactError(f"{path.name} is not listed in {manifest.NAME}", where=str(path), fix=fix)

    def _check_file(self, name: str) -> None:
        path, expected = self.folder / name, self._files[name]
        with self._open(name) as file:
            size = os.fstat(file.fileno()).st_size
            if size != expected["bytes"]:
                raise manifest.refuse(path, f"has {size:,} bytes instead of {expected['bytes']:,}")
            if hashlib.file_digest(file, "sha256").hexdigest() != expected["sha256"]:
                raise manifest.refuse(path, "was altered or damaged: its sha256 is not the one in the manifest")

    def _open(self, name: str) -> BufferedReader:
        path = self.folder / name
        try:
            return manifest.open_plain(path)
        except FileNotFoundError:
            raise manifest.refuse(path, "is missing") from None
        except OSError as error:
            raise manifest.refuse(path, f"cannot be read: {error.strerror or error}") from error

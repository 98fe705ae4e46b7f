"""Reader of model directories, which checks every byte against the manifest before parsing.

Parsers receive the hashed bytes, never a path, whose content could change in between.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact import manifest
from gpupipe.artifact.untrusted.archives import read_arrays
from gpupipe.artifact.untrusted.shapes import Shape
from gpupipe.errors import ArtifactError, ConfigError

if TYPE_CHECKING:
    import numpy as np

PathLike = str | os.PathLike[str]


def trusted_keys(trust: PathLike | Sequence[PathLike] | None) -> tuple[str, ...]:
    """Return the argument `trust` of `gpupipe.load_model` as absolute paths; raise ConfigError if it is empty."""
    if trust is None:
        return ()
    if not trust:
        raise ConfigError("expected trusted keys; got none", where="trust", fix="name a key, or omit trust")
    return tuple(os.path.abspath(key) for key in ([trust] if isinstance(trust, str | os.PathLike) else trust))


class ArtifactReader:
    """A model directory whose files are all present, unaltered and listed; only the attached files may be unlisted.

    `manifest` has the values of manifest.json, `manifest_bytes` its content. With `trust`, the signature is verified
    before anything is parsed: see `gpupipe.artifact.signature.verify_signature`.

    Raise ArtifactError if a file is missing, altered, unlisted or not a regular file, or the format version is not
    supported; the message names the file. Methods raise it if a part does not exist or does not parse.
    """

    def __init__(self, folder: Path, trust: tuple[str, ...] = ()) -> None:
        self.folder, self.trust = Path(folder), trust
        signed = None
        if trust:
            from gpupipe.artifact.signature import verify_signature

            signed = verify_signature(self.folder, trust)
        self.manifest, self.manifest_bytes = manifest.load(self.folder, signed)
        self._files: dict[str, dict[str, Any]] = self.manifest["files"]
        self._check_listing()
        for name in self._files:
            self._check_file(name)

    def names(self) -> tuple[str, ...]:
        """Return the names of the parts, sorted."""
        return tuple(self._files)

    def path(self, name: str) -> Path:
        """Return the path of a part, for messages."""
        return self.folder / name

    def json(self, name: str, shape: Shape = object) -> Any:
        """Return the values of a JSON part, which have a shape of `gpupipe.artifact.untrusted.shapes`."""
        return manifest.parse_part(self.read(name), shape, self.folder / name)

    def arrays(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of an npz part, without unpickling anything."""
        try:
            return read_arrays(self.read(name))
        except ValueError as error:
            raise manifest.refuse(self.folder / name, f"is not a valid npz file: {error}") from error

    def read(self, name: str) -> bytes:
        """Return the bytes of a part, after checking their sha256 again.

        Raise ArtifactError if there is no such part, or its bytes no longer match the manifest.
        """
        if name not in self._files:
            what = f"the model has no part {name}"
            raise ArtifactError(what, where=str(self.folder), fix=f"its parts are {', '.join(self._files)}")
        with self._open(name) as file:
            content = file.read(self._files[name]["bytes"] + 1)  # no more, even if the file has grown
        if hashlib.sha256(content).hexdigest() != self._files[name]["sha256"]:
            raise manifest.refuse(self.folder / name, "has changed since the model was opened")
        return content

    def _check_listing(self) -> None:
        allowed = {manifest.NAME, *manifest.ATTACHED, *self._files}
        for path in sorted(self.folder.iterdir()):
            if path.is_symlink() or not path.is_file():
                raise manifest.refuse(path, "is not a regular file")
            if path.name not in allowed:
                fix = "move it elsewhere; a model directory may contain listed files only"
                raise ArtifactError(f"{path.name} is not listed in {manifest.NAME}", where=str(path), fix=fix)

    def _check_file(self, name: str) -> None:
        path, expected = self.folder / name, self._files[name]
        with self._open(name) as file:
            size = os.fstat(file.fileno()).st_size
            if size != expected["bytes"]:
                raise manifest.refuse(path, f"has the wrong size: expected {expected['bytes']:,} bytes; found {size:,}")
            if hashlib.file_digest(file, "sha256").hexdigest() != expected["sha256"]:
                raise manifest.refuse(path, "was altered or corrupted: its sha256 differs from the manifest")

    def _open(self, name: str) -> BufferedReader:
        path = self.folder / name
        try:
            return manifest.open_plain(path)
        except FileNotFoundError:
            raise manifest.refuse(path, "is missing") from None
        except OSError as error:
            raise manifest.refuse(path, f"cannot be read: {error.strerror or error}") from error

"""Open a model directory: every byte is checked against the manifest before any parser sees it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact import manifest
from gpupipe.errors import ArtifactError
from gpupipe.untrusted.archives import read_arrays
from gpupipe.untrusted.documents import parse_json
from gpupipe.untrusted.parquet import read_parquet

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

    Raises
    ------
    ArtifactError
        If a file is missing, altered, unlisted or no plain file, or the format is of another version; the message names
        the file. From the methods, if there is no such part or it does not parse.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.manifest = manifest.read(self.folder)
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
            return parse_json(self.path(name).read_bytes())
        except ValueError as error:
            raise manifest.refuse(self.folder / name, f"does not parse as JSON: {error}") from error

    def arrays(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of an npz part; nothing in it is ever unpickled."""
        try:
            return read_arrays(self.path(name))
        except ValueError as error:
            raise manifest.refuse(self.folder / name, f"does not parse as npz: {error}") from error

    def table(self, name: str) -> Any:
        """Return a Parquet part as ``pyarrow.Table``."""
        try:
            return read_parquet(self.path(name))
        except ValueError as error:
            raise manifest.refuse(self.folder / name, f"does not parse as Parquet: {error}") from error

    def path(self, name: str) -> Path:
        """Return the path of a part, for a library that reads files."""
        if name not in self._files:
            what = f"there is no {name} in this model"
            raise ArtifactError(what, where=str(self.folder), fix=f"its parts are {', '.join(self._files)}")
        return self.folder / name

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
        if not path.exists():
            raise manifest.refuse(path, "is missing")
        size = path.stat().st_size
        if size != expected["bytes"]:
            raise manifest.refuse(path, f"has {size:,} bytes instead of {expected['bytes']:,}")
        if manifest.sha256(path) != expected["sha256"]:
            raise manifest.refuse(path, "was altered or damaged: its sha256 is not the one in the manifest")

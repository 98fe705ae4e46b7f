"""Write a model directory, part by part; the manifest comes last, so an unfinished one is never taken for a model."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupipe.artifact import manifest
from gpupipe.errors import ArtifactError

if TYPE_CHECKING:
    import numpy as np


class ArtifactWriter:
    """A model directory that is being written.

    A part is one file; its name has the ending of its format: ``"features.json"``, ``"tables.npz"``.

    Parameters
    ----------
    folder : Path
        Made here; it may exist if it is empty.

    Raises
    ------
    ArtifactError
        If the folder is not empty; from the methods, if a name is forbidden or taken, or a value cannot be kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            raise ArtifactError("a model needs an empty directory", where=str(folder), fix="name another directory")
        self._names: list[str] = []

    def json(self, name: str, value: Any, compact: bool = False) -> None:
        """Write plain values (dict, list, str, int, finite float, bool, None) as JSON; `compact`: on one line."""
        path = self.file(name)
        layout: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False} if compact else {"indent": 1}
        try:
            text = json.dumps(value, allow_nan=False, **layout)
        except (TypeError, ValueError) as error:
            fix = "keep NaN, infinity and arrays in a part written with arrays()"
            raise ArtifactError(f"{name} cannot be kept as JSON: {error}", where=str(path), fix=fix) from error
        path.write_text(text + "\n", encoding="utf-8")

    def arrays(self, name: str, values: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Write named arrays as an uncompressed npz; arrays of Python objects are refused."""
        import numpy as np

        path = self.file(name)
        arrays = {key: np.asanyarray(value) for key, value in values.items()}
        for key, array in arrays.items():
            if array.dtype.hasobject:
                what = f"{name}: array {key!r} holds Python objects, which only pickle could keep"
                raise ArtifactError(what, where=str(path), fix="give numbers or fixed-width strings")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for key, array in arrays.items():
                with archive.open(zipfile.ZipInfo(key + ".npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    def file(self, name: str) -> Path:
        """Return the path of a part that the caller writes, such as ``"estimator.ubj"``."""
        if not manifest.is_file_name(name):
            fix = "use letters, digits, dot, dash and underscore"
            raise ArtifactError(f"{name!r} is no name for a part of a model", where=str(self.folder), fix=fix)
        if name in self._names:
            raise ArtifactError(f"{name} is written twice", where=str(self.folder), fix="give each part its own name")
        self._names.append(name)
        return self.folder / name

    def finish(self, content: Mapping[str, Any], libraries: Mapping[str, str] | None = None) -> None:
        """Write manifest.json: `content`, the format, the time, the versions, and size and sha256 of each part.

        A finished model may be given further parts; until it is finished again, readers refuse it.

        Parameters
        ----------
        content : mapping
            Plain values of the caller's own: schema, lineage, parity…
        libraries : mapping of str to str, optional
            Library name to version.
        """
        taken = sorted(set(content) & set(manifest.OWN_KEYS))
        if taken:
            raise ArtifactError(f"the manifest has its own {', '.join(taken)}", where=str(self.folder))
        found = {path.name for path in self.folder.iterdir()} - {manifest.NAME}
        if found != set(self._names):
            odd = ", ".join(sorted(found ^ set(self._names)))
            raise ArtifactError(f"parts that were not written, or not announced: {odd}", where=str(self.folder))
        values = {
            "format": manifest.FORMAT,
            "format_version": manifest.FORMAT_VERSION,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "gpupipe": _gpupipe_version(),
            "libraries": dict(libraries or {}),
            **content,
            "files": {name: _describe(self.folder / name) for name in sorted(self._names)},
        }
        try:
            (self.folder / manifest.NAME).write_bytes(manifest.render(values))
        except (TypeError, ValueError) as error:
            raise ArtifactError(f"the manifest cannot be kept as JSON: {error}", where=str(self.folder)) from error


def _describe(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "bytes": path.stat().st_size}


def _gpupipe_version() -> str:
    try:
        return metadata.version("gpupipe")
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "unknown"

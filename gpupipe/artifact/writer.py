"""Writer of model directories. The manifest is written last, so an incomplete directory is never taken for a model."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gpupipe.artifact import manifest
from gpupipe.errors import ArtifactError
from gpupipe.version import __version__

if TYPE_CHECKING:
    from gpupipe.typing import Array


class ArtifactWriter:
    """A model directory that is being written.

    A part is one file, named with the suffix of its format: ``"features.json"``, ``"tables.npz"``.

    - `folder`: the directory to create; it may exist if it is empty.

    Raise ArtifactError if the folder is not empty. Methods raise it if a name is invalid or taken, or a value cannot be
    written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            what = "expected a new or an empty directory"
            raise ArtifactError(what, where=str(folder), fix="name another directory")
        self._names: list[str] = []

    @classmethod
    @contextmanager
    def reopened(cls, folder: Path, replaced: Collection[str] = ()) -> Iterator[Self]:
        """Add parts to a finished directory, and write the `replaced` ones again: its manifest then lists all parts."""
        values, _ = manifest.load(folder)
        writer = cls.__new__(cls)
        writer.folder, writer._names = folder, [name for name in values["files"] if name not in replaced]
        yield writer
        content = {key: value for key, value in values.items() if key not in manifest.OWN_KEYS}
        writer.finish(content, values["libraries"])

    def json(self, name: str, value: Any, compact: bool = False) -> None:
        """Write plain values (dict, list, str, int, finite float, bool, None) as JSON; `compact`: on one line."""
        path = self.file(name)
        layout: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False} if compact else {"indent": 1}
        try:
            text = json.dumps(value, allow_nan=False, **layout)
        except (TypeError, ValueError) as error:
            fix = "write NaN, infinity and arrays with arrays()"
            raise ArtifactError(f"cannot write {name} as JSON: {error}", where=str(path), fix=fix) from error
        path.write_text(text + "\n", encoding="utf-8")

    def arrays(self, name: str, values: Mapping[str, Array]) -> None:
        """Write named arrays as an uncompressed npz file; arrays of Python objects raise ArtifactError."""
        import numpy as np

        path = self.file(name)
        arrays = {key: np.asanyarray(value) for key, value in values.items()}
        for key, array in arrays.items():
            if array.dtype.hasobject:
                what = f"cannot write array {key!r} of {name}: Python objects would need pickle"
                raise ArtifactError(what, where=str(path), fix="use numbers or fixed-width strings")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for key, array in arrays.items():
                with archive.open(zipfile.ZipInfo(key + ".npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    def file(self, name: str) -> Path:
        """Register a part that the caller writes, such as ``"estimator.ubj"``, and return its path."""
        if not manifest.is_file_name(name):
            fix = "use letters, digits, dot, dash and underscore"
            raise ArtifactError(f"invalid part name {name!r}", where=str(self.folder), fix=fix)
        if name in self._names:
            raise ArtifactError(f"duplicate part {name}", where=str(self.folder), fix="use unique part names")
        self._names.append(name)
        return self.folder / name

    def finish(self, content: Mapping[str, Any], libraries: Mapping[str, str] | None = None) -> None:
        """Write manifest.json: `content`, format, time, versions, and the size and sha256 of each part.

        Parts can be added later; readers reject the directory until `finish` is called again. `content` has plain
        values of the caller, such as task, labels and lineage; `libraries` maps names of libraries to their versions.
        """
        taken = sorted(set(content) & set(manifest.OWN_KEYS))
        if taken:
            raise ArtifactError(f"reserved manifest keys in content: {', '.join(taken)}", where=str(self.folder))
        found = {path.name for path in self.folder.iterdir()} - {manifest.NAME, *manifest.ATTACHED}
        if found != set(self._names):
            odd = ", ".join(sorted(found ^ set(self._names)))
            raise ArtifactError(f"unwritten or unregistered parts: {odd}", where=str(self.folder))
        values = {
            "format": manifest.FORMAT,
            "format_version": manifest.FORMAT_VERSION,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "gpupipe": __version__,
            "libraries": dict(libraries or {}),
            **content,
            "files": {name: _describe(self.folder / name) for name in sorted(self._names)},
        }
        try:
            (self.folder / manifest.NAME).write_bytes(manifest.render(values))
        except (TypeError, ValueError) as error:
            raise ArtifactError(f"cannot write the manifest as JSON: {error}", where=str(self.folder)) from error


def _describe(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "bytes": path.stat().st_size}

"""History of a model: its lineage; and of a folder: its generations, and the changes of the current one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gpupipe.artifact import ArtifactReader
from gpupipe.errors import ArtifactError
from gpupipe.model_parts.feature_files import TRAINING
from gpupipe.model_parts.folder import model_folder
from gpupipe.model_parts.generations import POINTER, generation_numbers, generation_path, read_log, read_pointer
from gpupipe.model_parts.lineage import Generation, read_lineage
from gpupipe.model_parts.part_shapes import TRAINING as SUMMARY


def model_history(path: Path) -> dict[str, Any]:
    """Return the history of a model or of a folder of generations as a JSON document.

    `generations`, oldest first, have the entries of `gpupipe.model_parts.lineage.Generation`. Those of a model without
    a lineage are the model itself; its rows are null if an earlier version wrote it. Those of a folder also have the
    name ``id``, ``is_current``, and ``problem``: null, or the reason why the generation cannot be read, which then has
    no other entries. A folder has its ``promotions`` too, oldest first, and the number of ``unreadable_lines``.

    Raise ArtifactError if the path has no model, or it or the pointer of the folder is corrupt.
    """
    if not os.path.lexists(path / POINTER):
        folder = model_folder(path)
        return {"model": str(folder), "generations": _lineage(ArtifactReader(folder))}
    try:
        pointer = read_pointer(path)
        assert pointer is not None
        promotions, n_torn = read_log(path)
        generations = [_generation(path, name, pointer.current) for name in generation_numbers(path)]
    except PermissionError as error:
        fix = "use gpupipe as the owner of the folder"
        raise ArtifactError("the folder cannot be read: permission denied", where=str(path), fix=fix) from error
    return {
        "folder": str(path),
        "current": pointer.current,
        "generations": generations,
        "promotions": promotions + [pointer.switch] * (pointer.switch not in promotions),
        "unreadable_lines": n_torn,
    }


def _generation(folder: Path, name: str, current: str) -> dict[str, Any]:
    found = {"id": name, "is_current": name == current, "problem": None}
    try:
        return {**found, **_lineage(ArtifactReader(generation_path(folder, name)))[-1]}
    except ArtifactError as error:
        return {**found, "problem": error.what}


def _lineage(reader: ArtifactReader) -> list[dict[str, Any]]:
    """Return the lineage of a model, or an entry for the model itself if it has none."""
    if found := read_lineage(reader):
        return [generation.to_json() for generation in found]
    manifest = reader.manifest
    own = Generation(manifest["manifest_sha256"], manifest["created"], 0, None, "trained", None, ()).to_json()
    return [{**own, "rows": reader.json(TRAINING, SUMMARY)["rows"] if TRAINING in reader.names() else None}]

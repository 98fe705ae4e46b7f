"""Lookup of the model directory in a path, and its protection from outputs."""

from __future__ import annotations

import os
from pathlib import Path

from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.errors import ArtifactError, did_you_mean
from gpupipe.io.output_conflicts import ProtectedInput
from gpupipe.model_parts.generations import POINTER, current_generation

RUN_DIRECTORY = ("config.yaml", "metrics.json")  # files of every run directory, including those without run.json


def model_folder(path: str | Path) -> Path:
    """Return the model directory of a path: that directory, the one in a run directory, or the current generation.

    The current generation of a folder may change at any time, so use the returned path for all files of a model. Raise
    ArtifactError if there is none; the message says what the path is instead.
    """
    try:
        return _find_model(Path(path))
    except PermissionError as error:
        fix = "use gpupipe as the owner of the model, who can also write it with --mode 640 or 644"
        raise ArtifactError("the model cannot be read: permission denied", where=str(path), fix=fix) from error


def _find_model(folder: Path) -> Path:
    inner = folder / "model"
    if (inner / MANIFEST).is_file():
        if inner.is_symlink():
            fix = "to load the linked model, name its directory"
            raise ArtifactError("the model is a symbolic link, not a directory", where=str(inner), fix=fix)
        return inner
    if (folder / MANIFEST).is_file():
        return folder
    if os.path.lexists(folder / POINTER):
        return current_generation(folder)
    raise _no_model(folder)


def _no_model(folder: Path) -> ArtifactError:
    where, fix = str(folder), "name a run directory, or the model directory in it"
    if not folder.exists():
        names = [entry.name for entry in folder.parent.iterdir()] if folder.parent.is_dir() else []
        return ArtifactError("no such directory", where=where, fix=did_you_mean(folder.name, names) or fix)
    if folder.is_file():
        is_config = folder.suffix in (".yaml", ".yml")
        what = f"expected a model directory; found a {'configuration' if is_config else 'file'}"
        return ArtifactError(what, where=where, fix=f"train a model: gpupipe run {folder}" if is_config else fix)
    if (folder / "config.yaml").is_file() or (folder / "log.jsonl").is_file():
        what = f"the run directory has no model: {folder / 'model' / MANIFEST} is missing"
        return ArtifactError(what, where=where, fix="run its configuration again")
    runs = [run for run in folder.iterdir() if (run / "model" / MANIFEST).is_file() and not run.name.startswith(".")]
    if runs:
        newest = max(runs, key=lambda run: run.stat().st_mtime)
        n_runs = f"{len(runs)} run {'directories' if len(runs) > 1 else 'directory'}"
        what = f"expected a model directory; found a folder of {n_runs}"
        return ArtifactError(what, where=where, fix=f"name a run directory, such as {newest}")
    return ArtifactError("the directory has no model: manifest.json is missing", where=where, fix=fix)


def model_inputs(model: str | os.PathLike[str]) -> list[ProtectedInput]:
    """Return the directory of a model, and the run directory that contains it; or the folder of generations."""
    path = Path(model)
    is_model = (path / MANIFEST).is_file()
    has_model = is_model or (path / "model" / MANIFEST).is_file() or (path / POINTER).is_file()
    found = [path] if has_model else []  # else loading raises the error
    run = path.resolve().parent
    if is_model and all((run / name).is_file() for name in RUN_DIRECTORY):
        found.append(run)
    return [ProtectedInput(os.fspath(folder), "the model", folder="closed") for folder in found]

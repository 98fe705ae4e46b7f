"""The model directory that a path means."""

from __future__ import annotations

from pathlib import Path

from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.errors import ArtifactError, did_you_mean


def model_folder(path: str | Path) -> Path:
    """Return the model directory of a path: that directory itself, or one in a run directory.

    Raises
    ------
    ArtifactError
        If there is none; what the path is instead is in the message.
    """
    folder = Path(path)
    inner = folder / "model"
    if (inner / MANIFEST).is_file():
        if inner.is_symlink():
            fix = "name the directory that it leads to, if that is what you want"
            raise ArtifactError("the model is a link out of its run directory", where=str(inner), fix=fix)
        return inner
    if (folder / MANIFEST).is_file():
        return folder
    raise _no_model(folder)


def _no_model(folder: Path) -> ArtifactError:
    where, fix = str(folder), "name a run directory, or the model directory in it"
    if not folder.exists():
        names = [entry.name for entry in folder.parent.iterdir()] if folder.parent.is_dir() else []
        return ArtifactError("there is no such model", where=where, fix=did_you_mean(folder.name, names) or fix)
    if folder.is_file():
        is_config = folder.suffix in (".yaml", ".yml")
        what = "this is a configuration, not a model" if is_config else "this is a file, not a model directory"
        return ArtifactError(what, where=where, fix=f"train it: gpupipe run {folder}" if is_config else fix)
    if (folder / "config.yaml").is_file() or (folder / "log.jsonl").is_file():
        return ArtifactError(
            f"the run directory has no model: {folder / 'model' / MANIFEST} is missing", where=where, fix="run it again"
        )
    runs = [run for run in folder.iterdir() if (run / "model" / MANIFEST).is_file() and not run.name.startswith(".")]
    if runs:
        newest = max(runs, key=lambda run: run.stat().st_mtime)
        what = f"this folder has {len(runs)} run directories" if len(runs) > 1 else "this folder has a run directory"
        return ArtifactError(f"{what}, and is not a model itself", where=where, fix=f"name one, such as {newest}")
    return ArtifactError("there is no model in this folder: it has no manifest.json", where=where, fix=fix)

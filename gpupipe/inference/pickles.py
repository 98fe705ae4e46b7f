"""Pickles of models: the files of the model directory, written to a temporary one and checked again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.errors import ArtifactError

if TYPE_CHECKING:
    from gpupipe.inference.model import Model


def read_files(folder: Path, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of a model directory, by name. Raise ArtifactError if they do not match `manifest`."""
    reader = ArtifactReader(folder)
    if reader.manifest != manifest:
        raise ArtifactError(
            "cannot pickle the model: its directory has changed since it was loaded",
            where=str(folder),
            fix="load the model again",
        )
    return {MANIFEST: reader.manifest_bytes, **{name: reader.read(name) for name in reader.names()}}


def restore_model(load: Callable[[Path], Model], files: Mapping[str, bytes], changed: Mapping[str, Any]) -> Model:
    """Return the model that `load` reads from these files, in a temporary directory that is removed with the model."""
    folder = Path(mkdtemp(prefix="gpupipe-model-"))
    try:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        model = replace(load(folder), **changed)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(model, rmtree, folder, ignore_errors=True)
    return model

"""Pickling of loaded models: a pickle holds the model's files, which a temporary directory gets when it is loaded."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.errors import ArtifactError

if TYPE_CHECKING:
    from gpupipe.pipeline.model.model import Model


def read_model_files(folder: Path, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files of a model directory.

    Raises
    ------
    ArtifactError
        If they are not, or no longer, those of `manifest`.
    """
    reader = ArtifactReader(folder)
    if reader.manifest != manifest:
        raise ArtifactError(
            "the model directory has changed since it was loaded, so the model cannot be pickled",
            where=str(folder),
            fix="load it again",
        )
    return {MANIFEST: reader.manifest_bytes, **{name: reader.read(name) for name in reader.names()}}


def load_from_files(files: Mapping[str, bytes], load: Callable[[Path], Model]) -> Model:
    """Return the model that `load` makes of a directory with these files, which exists as long as the model does."""
    folder = Path(mkdtemp(prefix="gpupipe-model-"))
    try:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        model = load(folder)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(model, rmtree, folder, ignore_errors=True)
    return model

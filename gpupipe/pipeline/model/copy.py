"""A model in a folder of its own: copied, verified there, and renamed into place when it is whole."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.pipeline.atomic.directory import AtomicDirectory
from gpupipe.pipeline.atomic.disk import room_on
from gpupipe.pipeline.model.model import load_model
from gpupipe.pipeline.parity.verification import Verification
from gpupipe.pipeline.run_inputs import model_inputs


def copy_model(source: Path, target: Path, device: str = "auto", allow_code: bool = False) -> Verification:
    """Copy the model of `source` to `target` and return what verifying the copy came to.

    Parameters
    ----------
    source : Path
        A run directory or a model directory.
    target : Path
        Made here; it may exist if it is empty.
    device : {"auto", "cpu", "gpu"}
        Where the copy is verified.
    allow_code : bool
        Whether users' kernels that the model holds may run.

    Raises
    ------
    ConfigError
        If `target` is there and not an empty folder, is inside the model or its run directory, or cannot be written to.
    ArtifactError
        If a file is damaged, nothing was recorded, or the copy does not give what was; nothing is left then.
    """
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise ConfigError("a model needs a folder of its own", where=str(target), fix="name one that is new, or empty")
    require_no_conflict(target, model_inputs(source), contents=[])
    model = load_model(source, device, allow_code=allow_code)  # every file is checked before one is copied
    with room_on(target.parent, "make room, or name another folder"), AtomicDirectory(target) as directory:
        for file in sorted(model.folder.iterdir()):
            shutil.copyfile(file, directory.path / file.name)
        found = load_model(directory.path, device, allow_code=allow_code).verify()
        if not found.passed:
            raise ArtifactError(
                "\n".join(["the model does not give here what was recorded:", *(f"  {p}" for p in found.problems[:8])]),
                where=str(model.folder),
                fix="gpupipe verify shows all of it; nothing was copied",
            )
    return found

"""Copy of a model directory, verified before it is renamed into place."""

from __future__ import annotations

import shutil
from pathlib import Path

from gpupipe.errors import ArtifactError
from gpupipe.files.directory import AtomicDirectory
from gpupipe.files.disk import room_on
from gpupipe.inference.model import load_model
from gpupipe.inference.parity.verification import Verification
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.model_parts.folder import model_inputs


def copy_model(source: Path, target: Path, device: str = "auto", allow_code: bool = False) -> Verification:
    """Copy the model of `source` to `target`, verify the copy, and return the verification.

    `source` is a run directory or a model directory. `target` is created; it may exist if it is empty. `device`, where
    the copy is verified, is ``"auto"``, ``"cpu"`` or ``"gpu"``. If `allow_code`, custom kernels in the model may run.

    Raises
    ------
    ConfigError
        If `target` exists and is not an empty directory, is inside the model or its run directory, or is not writable.
    ArtifactError
        If a file is corrupt, the model has no recorded rows, or the copy fails verification. No copy is left then.
    """
    (directory := AtomicDirectory(target)).require_place()
    require_no_conflict(target, model_inputs(source), contents=[])
    model = load_model(source, device, allow_code=allow_code)  # every file is checked before one is copied
    with room_on(target.parent, "free disk space, or name another directory"), directory:
        for file in sorted(model.folder.iterdir()):
            shutil.copyfile(file, directory.path / file.name)
        found = load_model(directory.path, device, allow_code=allow_code).verify()
        if not found.passed:
            raise ArtifactError(
                "\n".join(["verification of the copied model failed:", *(f"  {p}" for p in found.problems[:8])]),
                where=str(model.folder),
                fix="run `gpupipe verify` for the full list; nothing was copied",
            )
    return found

"""Signature of a model, with its provenance and bill of materials."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.manifest import BOM, PROVENANCE, SIGNATURE
from gpupipe.artifact.manifest import NAME as MANIFEST
from gpupipe.artifact.signature import ModelSigner
from gpupipe.errors import ConfigError
from gpupipe.files.file import write_text
from gpupipe.files.jsonfile import dumps
from gpupipe.files.policy import CAN_REPLACE, MODE
from gpupipe.model_parts.folder import RUN_DIRECTORY, model_folder
from gpupipe.model_parts.part_shapes import check_manifest
from gpupipe.pipeline.provenance.bom import bill_of_materials
from gpupipe.pipeline.provenance.statement import provenance_statement


def sign_model(path: Path, key: Path, certificate: Path | None = None, chain: Sequence[Path] = ()) -> Path:
    """Write provenance, bill of materials and signature into a model directory, and return the directory.

    A model that is not in its run directory keeps the first two if it has them. The files get the permissions of the
    manifest. Raise ConfigError if the model is signed already and files are not replaced, or as `ModelSigner`;
    ArtifactError if a file of the model is corrupt.
    """
    signer, folder = ModelSigner(key, certificate, chain), model_folder(path)
    reader = ArtifactReader(folder)  # nothing damaged is signed
    check_manifest(reader.manifest, folder)
    if (folder / SIGNATURE).exists() and not CAN_REPLACE.get():
        raise ConfigError("the model is signed already", where=str(folder), fix="add --force to sign it again")
    run = folder.parent if all((folder.parent / name).is_file() for name in RUN_DIRECTORY) else None
    with ExitStack() as stack, ExitStack() as on_failure:
        stack.callback(MODE.reset, MODE.set((folder / MANIFEST).stat().st_mode & 0o777))
        stack.callback(CAN_REPLACE.reset, CAN_REPLACE.set(True))
        if run is not None or not (folder / PROVENANCE).is_file():
            for name, describe in ((PROVENANCE, provenance_statement), (BOM, bill_of_materials)):
                on_failure.callback((folder / name).unlink, missing_ok=True)
                write_text(folder / name, dumps(describe(reader, run), indent=2) + "\n")
        on_failure.callback((folder / SIGNATURE).unlink, missing_ok=True)  # one that no longer matches
        signer.sign(folder)
        on_failure.pop_all()
    return folder

"""Identity of what a run has read, for the manifest of its model: hashes of files, and versions of external tables."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpupipe.config import Config
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.in_memory import FORMAT as MEMORY
from gpupipe.io.input_files import InputFiles
from gpupipe.references import REFERENCE, split_reference
from gpupipe.training.preparation.run_inputs import code_references

MOST = 1_000  # sources in a manifest, which every process reads that predicts


def describe_sources(config: Config, files: InputFiles | None) -> list[dict[str, Any]]:
    """Return the files and tables of a run, and the files of its code, as JSON values without secrets.

    Each has a ``name``: local files that of their place below the folder that contains all of them. Local files have
    ``bytes`` and ``sha256``, without the latter if they have changed since they were listed, and so have tables in
    memory; others have ``version``: the entity tag of a remote file, or the pinned state of an external table. More
    than `MOST` are one entry, whose ``sha256`` is that of all.
    """
    inputs = [] if files is None else files.all
    references = filter(REFERENCE.fullmatch, code_references(config).values())
    code = {split_reference(reference)[0].absolute() for reference in references}
    listed = {Path(file.path) for file in inputs}
    own = [SourceFile.local(str(path), path.stat(), "python") for path in sorted(code - listed) if path.is_file()]
    read = [*inputs, *own]
    folders = [os.path.dirname(file.path) for file in read if _is_local(file)]
    found = [_describe(file, os.path.commonpath(folders) if folders else "") for file in read]
    if len(found) > MOST:
        whole = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
        found = [{"name": f"{len(found)} sources", "sha256": whole}]
    hidden = config.origin.redactor.hide_all(found)
    assert isinstance(hidden, list)
    return hidden


def changed_sources(old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of the sources that differ, or are in one of the lists only."""
    before, after = ({each["name"]: each for each in sources} for sources in (old, new))
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


def _describe(file: SourceFile, folder: str) -> dict[str, Any]:
    """Return the identity of a file, whose name is that below `folder` if it is local."""
    if _is_local(file):
        name = os.path.relpath(file.path, folder).encode("utf-8", "replace").decode()
        return {"name": name, "bytes": file.size, **_sha256(file)}
    if file.copy is not None:
        return {"name": file.label, "version": file.copy.pin}
    if file.format == "generator":
        return {"name": file.path, "version": f"{file.size} rows"}
    return {"name": mask(file.path), "bytes": file.size, "sha256" if file.format == MEMORY else "version": file.version}


def _is_local(file: SourceFile) -> bool:
    return file.copy is None and os.path.isabs(file.path) and file.remote is None


def _sha256(file: SourceFile) -> dict[str, str]:
    """Return the hash of a file, nothing if it is not the one that was listed."""
    try:
        with open(file.path, "rb") as opened:
            digest, status = hashlib.file_digest(opened, "sha256").hexdigest(), os.fstat(opened.fileno())
    except OSError:
        return {}
    is_same = (status.st_mtime_ns, status.st_ctime_ns, status.st_size) == (file.mtime_ns, file.ctime_ns, file.size)
    return {"sha256": digest} if is_same else {}

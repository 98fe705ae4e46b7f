"""Custom kernels in a model directory: hashed source text, compiled only if the caller allows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ArtifactError
from gpupipe_kernels.user.kernel import KernelError, UserKernel, restore

if TYPE_CHECKING:
    from gpupipe.artifact import ArtifactReader, ArtifactWriter
    from gpupipe_kernels.program.program import Call


def write_kernels(writer: ArtifactWriter, calls: Iterable[Call]) -> list[dict[str, Any]]:
    """Write the source of each kernel that a program calls; return their manifest entries, in call order."""
    entries = []
    for i, kernel in enumerate(calls, start=1):
        assert isinstance(kernel, UserKernel)
        name = f"kernel_{i}_{re.sub(r'[^a-zA-Z0-9_]', '_', kernel.name)[:80]}.py"
        writer.file(name).write_bytes(kernel.source.encode())
        entries.append(_describe(kernel, name))
    return entries


def read_kernels(reader: ArtifactReader, allow_code: bool) -> tuple[UserKernel, ...]:
    """Return the kernels of a model, compiled.

    Raise ArtifactError if there are any and `allow_code` is false, or a source is not a valid kernel or does not match
    the manifest.
    """
    entries = reader.manifest["kernels"]
    if entries and not allow_code:
        files = ", ".join(f"{entry['file']} (sha256 {entry['sha256']})" for entry in entries)
        raise ArtifactError(
            f"the model contains Python code: {files}",
            where=str(reader.folder),
            fix="review the code, then use gpupipe.load_model(path, allow_code=True) or gpupipe predict --allow-code",
        )
    return tuple(_read(reader, entry) for entry in entries)


def _read(reader: ArtifactReader, entry: Mapping[str, Any]) -> UserKernel:
    path = reader.folder / entry["file"]
    try:
        kernel = restore(reader.read(entry["file"]).decode(), str(path))
        kernel.compile()  # report compile errors on loading, not on the first prediction
    except (KernelError, UnicodeDecodeError) as error:
        raise _error(path.name, str(error), str(path)) from None
    if _describe(kernel, path.name) != entry:
        raise _error(path.name, "does not match the kernel described in the manifest", str(path))
    return kernel


def _describe(kernel: UserKernel, file: str) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "file": file,
        "inputs": list(kernel.parameters),
        "out": kernel.out,
        "nulls": kernel.nulls,
        "sha256": kernel.sha256,
    }


def _error(name: str, problem: str, where: str) -> ArtifactError:
    return ArtifactError(f"{name} {problem}", where=where, fix="export the model again")

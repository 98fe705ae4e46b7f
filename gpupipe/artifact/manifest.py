"""manifest.json: the metadata of a model directory, with the hash of each file and of the manifest itself.

The only valid bytes of the file are `render` of its values: other whitespace or escapes are rejected, so that any
changed byte is detected. The hashes detect corruption and careless edits. They are not a signature, which is
`gpupipe.artifact.signature`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.artifact.untrusted.shapes import Shape, check_shape
from gpupipe.errors import ArtifactError
from gpupipe.units import MIB

FORMAT = "gpupipe-model"
FORMAT_VERSION = 2
NAME = "manifest.json"
CARD = "README.md"  # the model card: not listed and never read, so that its reader may edit it
SIGNATURE = "model.sig"
PROVENANCE = "provenance.json"
BOM = "bom.json"  # bill of materials
ATTACHED = (CARD, SIGNATURE, PROVENANCE, BOM)  # for people and other programs: not listed, and no parts of the model
# Supported earlier versions, each with a function from its values to those of the next version. A change in the meaning
# of a manifest or part needs a new version and an entry here, unless every earlier gpupipe reads it correctly.
MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: lambda values: _complete(values),  # gpupipe.model_parts.format_1 reads the Parquet parts
}
MAX_BYTES = 64 * MIB
OWN_KEYS = ("format", "format_version", "created", "gpupipe", "libraries", "files", "manifest_sha256")

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_FILE = {"sha256": str, "bytes": range(2**63)}
_RELEASE = re.compile(r"\d+(\.\d+){1,2}[a-z0-9.]{0,12}")
_RE_EXPORT = "copy the model directory again from its source, or export the model again"


def is_file_name(name: object) -> bool:
    """Return whether `name` is a valid name of a part: letters, digits and ``._-``, no path, no ``..``."""
    return isinstance(name, str) and name != NAME and ".." not in name and _FILE_NAME.fullmatch(name) is not None


def render(values: Mapping[str, Any]) -> bytes:
    """Return the bytes of a manifest: its values and, last, the sha256 of the bytes without that entry."""
    content = {key: value for key, value in values.items() if key != "manifest_sha256"}
    content["manifest_sha256"] = hashlib.sha256(_dump(content)).hexdigest()
    return _dump(content)


def load(folder: Path, sha256: str | None = None) -> tuple[dict[str, Any], bytes]:
    """Return the values of the manifest in `folder`, checked against its own hash, and its bytes.

    `sha256` is that of the file if it was signed. Raise ArtifactError if it is missing, corrupt, altered, too large, or
    has an unsupported format or version.
    """
    path = folder / NAME
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            raw = file.read(min(size, MAX_BYTES) + 1)  # limited, because read allocates the whole buffer first
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        fix = "name the model directory of a finished run, such as runs/NAME/model"
        raise ArtifactError(f"not a model directory: {NAME} is missing", where=str(folder), fix=fix) from error
    except OSError as error:
        raise refuse(path, f"cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_BYTES:
        raise refuse(path, f"exceeds {MAX_BYTES // MIB} MiB")
    if sha256 is not None and hashlib.sha256(raw).hexdigest() != sha256:
        raise refuse(path, "has changed since the signature was verified")
    values = parse_part(raw, {...: object}, path)
    _check_version(path, values)
    if not _is_rendered(values, raw):
        raise refuse(path, "was altered or corrupted: its own sha256 does not match")
    check_part(values, {"files": {...: _FILE}, ...: object}, path)
    _check_files(path, values["files"])
    found: dict[str, Any] = values
    for version in range(found["format_version"], FORMAT_VERSION):
        found = MIGRATIONS[version](found)
    return found, raw


def refuse(path: Path, problem: str) -> ArtifactError:
    """Return the error for an invalid file of a model directory."""
    return ArtifactError(f"{path.name} {problem}", where=str(path), fix=_RE_EXPORT)


def parse_part(raw: bytes, shape: Shape, path: Path) -> Any:
    """Return the values of a JSON file; raise ArtifactError if it is not valid JSON, or they do not have the shape."""
    try:
        values = parse_json(raw)
    except ValueError as error:
        raise refuse(path, f"is not valid JSON: {error}") from None
    check_part(values, shape, path)
    return values


def check_part(values: Any, shape: Shape, path: Path) -> None:
    """Raise ArtifactError unless the values of a JSON file have a shape: see `gpupipe.artifact.untrusted.shapes`."""
    try:
        check_shape(values, shape)
    except (ValueError, RecursionError) as error:
        problem = "is nested too deeply" if isinstance(error, RecursionError) else f"is invalid: {error}"
        raise refuse(path, problem) from None


def open_plain(path: Path) -> BufferedReader:
    """Return a regular file, opened for reading.

    The type is checked on the opened descriptor, so that the file cannot be exchanged for a link or pipe in between.
    Raise OSError if it is a link, not a regular file, or cannot be opened.
    """
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):  # not every platform has each
        flags |= getattr(os, name, 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise FileNotFoundError(errno.ENOENT, "it is a symbolic link", str(path)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "it is not a regular file", str(path))
    return open(descriptor, "rb")  # the caller closes it


def _dump(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, allow_nan=False) + "\n").encode("ascii")


def _is_rendered(values: dict[str, Any], raw: bytes) -> bool:
    try:
        return render(values) == raw
    except (ValueError, RecursionError):
        return False


def _check_version(path: Path, values: dict[str, Any]) -> None:
    if values.get("format") != FORMAT:
        raise refuse(path, f"has the wrong format: expected {FORMAT!r}; found {values.get('format')!r:.40}")
    version, oldest = values.get("format_version"), min([*MIGRATIONS, FORMAT_VERSION])
    if type(version) is not int or not oldest <= version <= FORMAT_VERSION:
        readable = f"version {oldest}" if oldest == FORMAT_VERSION else f"versions {oldest} to {FORMAT_VERSION}"
        what = f"{NAME} has format version {version!r}; this version of gpupipe reads {readable}"
        writer = str(values.get("gpupipe"))
        known = f"run pip install 'gpupipe=={writer}'" if _RELEASE.fullmatch(writer) else "install the gpupipe version"
        raise ArtifactError(what, where=str(path), fix=f"{known} that wrote the model, or export the model again")


def _complete(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of format 1 with the entries that its first models lack."""
    found = {"data": [], "kernels": [], **values}
    if isinstance(reading := values.get("reading"), dict):
        found["reading"] = {"events": {"tables": {}, "entities": None}, **reading}
    return found


def _check_files(path: Path, files: Mapping[str, Any]) -> None:
    if wrong := [name for name in files if not is_file_name(name)]:
        raise refuse(path, f"lists a file with the invalid name {wrong[0]!r:.80}")
    spellings = {NAME.casefold(): NAME}
    for name in files:
        other = spellings.setdefault(name.casefold(), name)
        if other != name:  # the same file on case-insensitive file systems
            raise refuse(path, f"lists {name} and {other}, which differ in case only")

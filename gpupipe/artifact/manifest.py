"""manifest.json: what a model directory holds, and the hash of each file, its own included.

The file has one spelling: `render` of its values. Whatever else has the same values (another blank, another escape) is
refused, so that any changed byte shows. The hashes find damage and careless edits; they are no signature.
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
from gpupipe.errors import ArtifactError
from gpupipe.units import MIB

FORMAT = "gpupipe-model"
FORMAT_VERSION = 2
NAME = "manifest.json"
# Each earlier version that is still read, and a function from its values to those of the next. A change of the meaning
# of a manifest or part needs a new version and an entry here, unless every earlier gpupipe reads it correctly.
MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: dict,  # the same values; its Parquet parts are read by gpupipe.pipeline.model.format_1
}
MAX_BYTES = 64 * MIB
OWN_KEYS = ("format", "format_version", "created", "gpupipe", "libraries", "files", "manifest_sha256")

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_RELEASE = re.compile(r"\d+(\.\d+){1,2}[a-z0-9.]{0,12}")
_ENTRY = {"sha256": str, "bytes": int}
_RE_EXPORT = "copy the model directory again from its source, or export it anew"


def is_file_name(name: object) -> bool:
    """Return whether `name` may be a file of a model directory: letters, digits and ``._-``, no path, no ``..``."""
    return isinstance(name, str) and name != NAME and ".." not in name and _FILE_NAME.fullmatch(name) is not None


def render(values: Mapping[str, Any]) -> bytes:
    """Return the one spelling of a manifest: its values and, last, the sha256 of their spelling without it."""
    content = {key: value for key, value in values.items() if key != "manifest_sha256"}
    content["manifest_sha256"] = hashlib.sha256(_spell(content)).hexdigest()
    return _spell(content)


def load(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Return the values of the manifest in `folder`, checked against its own hash, and its bytes.

    Raises
    ------
    ArtifactError
        If there is none, or it is damaged, altered, too large, or of a format or version that is not read here.
    """
    path = folder / NAME
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            raw = file.read(min(size, MAX_BYTES) + 1)  # the buffer is allocated before anything is read
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        fix = "name the model directory of a finished run, such as runs/NAME/model"
        raise ArtifactError(f"there is no {NAME}: this is no model directory", where=str(folder), fix=fix) from error
    except OSError as error:
        raise refuse(path, f"cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_BYTES:
        raise refuse(path, f"has more than {MAX_BYTES // MIB} MiB")
    try:
        values = parse_json(raw)
    except ValueError as error:
        raise refuse(path, f"is no JSON that we write: {error}") from None
    if not isinstance(values, dict):
        raise refuse(path, "is not a JSON object")
    _check_version(path, values)
    if not _is_own_spelling(values, raw):
        raise refuse(path, "is not as it was written: its own sha256 does not match")
    _check_files(path, values.get("files"))
    found: dict[str, Any] = values
    for version in range(found["format_version"], FORMAT_VERSION):
        found = MIGRATIONS[version](found)
    return found, raw


def refuse(path: Path, problem: str) -> ArtifactError:
    """Return the error for a file of a model directory that must not be used."""
    return ArtifactError(f"{path.name} {problem}", where=str(path), fix=_RE_EXPORT)


def open_plain(path: Path) -> BufferedReader:
    """Return a plain file, open to be read.

    The kind is that of what was opened, not of what had the name before: neither a link nor a pipe is followed.

    Raises
    ------
    OSError
        If it is a link, no plain file, or cannot be opened.
    """
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):  # those that the platform has
        flags |= getattr(os, name, 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise FileNotFoundError(errno.ENOENT, "it is a link", str(path)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "it is not a regular file", str(path))
    return open(descriptor, "rb")  # the caller closes it


def _spell(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, allow_nan=False) + "\n").encode("ascii")


def _is_own_spelling(values: dict[str, Any], raw: bytes) -> bool:
    try:
        return render(values) == raw
    except (ValueError, RecursionError):
        return False


def _check_version(path: Path, values: dict[str, Any]) -> None:
    if values.get("format") != FORMAT:
        raise refuse(path, f"does not say that its format is {FORMAT!r}")
    version, oldest = values.get("format_version"), min([*MIGRATIONS, FORMAT_VERSION])
    if type(version) is not int or not oldest <= version <= FORMAT_VERSION:
        readable = f"version {oldest}" if oldest == FORMAT_VERSION else f"versions {oldest} to {FORMAT_VERSION}"
        what = f"{NAME} has format version {version!r}; this gpupipe reads {readable}"
        writer = str(values.get("gpupipe"))
        known = f"pip install 'gpupipe=={writer}'" if _RELEASE.fullmatch(writer) else "install the gpupipe"
        raise ArtifactError(what, where=str(path), fix=f"{known} that wrote it, or export the model anew")


def _check_files(path: Path, files: object) -> None:
    if not isinstance(files, dict):
        raise refuse(path, "lists no files")
    for name, entry in files.items():
        if not is_file_name(name):
            raise refuse(path, f"lists a file of the forbidden name {name!r}")
        if not isinstance(entry, dict) or {key: type(value) for key, value in entry.items()} != _ENTRY:
            raise refuse(path, f"does not give the sha256 and bytes of {name}")
    spellings = {NAME.casefold(): NAME}
    for name in files:
        other = spellings.setdefault(name.casefold(), name)
        if other != name:  # on some file systems they are one file
            raise refuse(path, f"lists {name} beside {other}, a name that differs in case only")

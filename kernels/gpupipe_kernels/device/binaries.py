"""Machine code that the package ships in ``compiled/``. Standard library only.

``python -m tools.device_code`` builds it. ``manifest.json`` has the hash of the sources, the compilers, the hash of
each file, and the parameters of each entry. Files are compressed by xz: machine code for each architecture of
`ARCHITECTURES`, which runs on later chips of the same generation, and PTX for GPUs of later generations.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
FOLDER = PACKAGE / "compiled"
MANIFEST = "manifest.json"
PTX = "ptx"
CAPABILITY = (7, 5)
"""The lowest compute capability for which CUDA 13 compiles."""
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
"""Turing, Ampere (and Ada), Hopper, and Blackwell for data centres and desktops."""
BUILD = "python -m tools.device_code"


class DeviceCodeError(RuntimeError):
    """Machine code is missing, damaged or out of date, and nothing can compile it.

    Attributes
    ----------
    fix : str
        What to do.
    """

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}. To do: {fix}")
        self.what, self.fix = what, fix


@cache
def manifest() -> dict[str, Any]:
    """Return the manifest.

    Raise DeviceCodeError if it is missing or not a manifest.
    """
    path = FOLDER / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf8"))
        if {"sources", "files", "entries"} <= found.keys():
            return dict(found)
        problem = "expected sources, files and entries"
    except (OSError, ValueError, AttributeError) as error:
        problem = f"{type(error).__name__}: {error}"
    raise _damaged(path, problem)


def is_current() -> bool:
    """Return whether the sources of the kernels are those that the shipped code was built from."""
    sources = manifest()["sources"]
    return bool(hash_of(tuple(sources["files"])) == sources["sha256"])


@cache
def hash_of(files: tuple[str, ...]) -> str:
    """Return the hash of source files of this package; ``""`` if one does not exist."""
    digest = hashlib.sha256()
    for file in files:
        try:
            content = (PACKAGE / file).read_bytes().replace(b"\r\n", b"\n")
        except OSError:
            return ""
        digest.update(f"{file} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def file_for(capability: tuple[int, int]) -> str:
    """Return the name of the file for a compute capability: machine code of its generation, else the PTX.

    Raise DeviceCodeError if the GPU is older than the oldest architecture.
    """
    if capability < CAPABILITY:
        least, found = (".".join(map(str, pair)) for pair in (CAPABILITY, capability))
        raise DeviceCodeError(
            f"expected a GPU of compute capability {least} or later, found {found}", "use device: cpu"
        )
    fitting = [a for a in ARCHITECTURES if (number := _pair(a)) <= capability and number[0] == capability[0]]
    return f"{fitting[-1]}.cubin" if fitting else PTX


@cache
def read(name: str) -> bytes:
    """Return the content of a shipped file.

    Raise DeviceCodeError if it is missing or damaged.
    """
    path = FOLDER / f"{name}.xz"
    try:
        content = lzma.decompress(path.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from error
    expected, found = manifest()["files"].get(name), hashlib.sha256(content).hexdigest()
    if found != expected:
        raise _damaged(path, f"expected SHA-256 {expected}, found {found}")
    return content


def is_ready(capability: tuple[int, int]) -> bool:
    """Return whether a GPU can run the shipped code; False if the sources are newer.

    Raise DeviceCodeError if a file is missing or damaged, or the GPU is too old.
    """
    return bool(read(file_for(capability))) and is_current()


def _pair(architecture: str) -> tuple[int, int]:
    number = int(architecture.removeprefix("sm_"))
    return number // 10, number % 10


def _damaged(path: Path, problem: str) -> DeviceCodeError:
    return DeviceCodeError(
        f"{path} is missing or damaged ({problem})", f"install gpupipe again; in a checkout, run {BUILD}"
    )

"""Folder of generations: models that replace each other, and a pointer to the current one.

::

    FOLDER/current.json            the pointer, which one rename replaces
    FOLDER/generations/0001-HASH/  a model directory; HASH: the first 12 digits of the hash of its manifest
    FOLDER/promotions.jsonl        a line for each change of the pointer

A reader follows the pointer once, to a directory that never changes. So a model that is loaded while another one is
promoted is the old one or the new one. `gpupipe.inference.promotion` writes the folder.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupipe.artifact import manifest
from gpupipe.artifact.untrusted.json_documents import parse_json
from gpupipe.artifact.untrusted.shapes import check_shape
from gpupipe.errors import ArtifactError
from gpupipe.units import MIB

POINTER = "current.json"
GENERATIONS = "generations"
LOG = "promotions.jsonl"
ID = re.compile(r"\d{4,9}-[0-9a-f]{12}")

SWITCH = {"time": str, "action": {"promote", "rollback"}, "from": (str, None), "to": str, "user": str}


@dataclass(frozen=True)
class Pointer:
    """The current generation of a folder.

    `earlier` has the generations that a rollback returns to, the next one first. `switch` is the line of the log about
    the last change, which the log lacks if the process was killed before it wrote the line.
    """

    current: str
    earlier: tuple[str, ...]
    switch: dict[str, Any]


def read_pointer(folder: Path) -> Pointer | None:
    """Return the pointer of a folder of generations; None if it has none.

    Raise ArtifactError if it is corrupt, and PermissionError if it cannot be read.
    """
    path = folder / POINTER
    try:
        with manifest.open_plain(path) as file:
            values = parse_json(file.read(MIB))
        check_shape(values, {"current": str, "earlier": [str], "switch": SWITCH})
        for name in (values["current"], *values["earlier"]):
            if not ID.fullmatch(name):  # it becomes a path
                raise ValueError(f"expected a generation, such as 0001-0123456789ab; found {name!r:.40}")
        return Pointer(values["current"], tuple(values["earlier"]), values["switch"])
    except PermissionError:
        raise
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and not (path.is_symlink() or path.exists()):
            return None
        what = f"the pointer to the current generation is corrupt: {getattr(error, 'strerror', None) or error}"
        fix = f"choose a generation: gpupipe rollback {folder} --to ID"
        raise ArtifactError(what, where=str(path), fix=fix) from error


def current_generation(folder: Path) -> Path:
    """Return the model directory that the pointer of a folder names.

    Raise ArtifactError if the pointer is corrupt, or the directory is missing or a symbolic link.
    """
    pointer = read_pointer(folder)
    path = folder if pointer is None else generation_path(folder, pointer.current)
    if path.is_symlink() or not (path / manifest.NAME).is_file():
        fix = f"choose another generation: gpupipe rollback {folder} --to ID"
        raise ArtifactError("the current generation is missing", where=str(path), fix=fix)
    return path


def generation_path(folder: Path, name: str) -> Path:
    """Return the model directory of a generation."""
    return folder / GENERATIONS / name


def generation_numbers(folder: Path) -> dict[str, int]:
    """Return the number of each generation in a folder by its name, oldest first."""
    inner = folder / GENERATIONS
    names = [path.name for path in inner.iterdir()] if inner.is_dir() else []
    numbers = {name: int(name.partition("-")[0]) for name in names if ID.fullmatch(name)}
    return dict(sorted(numbers.items(), key=lambda entry: entry[1]))


def read_log(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the changes of the current generation, oldest first, and the number of lines that cannot be read.

    A full disk or a killed process can leave a torn line. Raise OSError if the log cannot be read.
    """
    found: list[dict[str, Any]] = []
    n_torn = 0
    with suppress(FileNotFoundError), manifest.open_plain(folder / LOG) as file:
        for line in file:
            try:
                check_shape(values := parse_json(line), SWITCH)
                found.append(values)
            except ValueError:
                n_torn += 1
    return found, n_torn

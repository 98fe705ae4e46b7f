"""Check that the output of a command does not overwrite its inputs."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpupipe.errors import ConfigError
from gpupipe.io.file_formats import format_of
from gpupipe.io.table_folder import TableFolder, find_matches, is_match, split_pattern

LOCAL_URLS = ("file://", "local://")


@dataclass(frozen=True)
class ProtectedInput:
    """An input that a command must not overwrite.

    - `path`: a file, glob, folder or URL
    - `role`: name in messages: ``"the input"``, ``"the configuration"``
    - `folder` ({"read", "closed", "open"}): for a folder: "read" if all data files in it are read; "closed" if nothing
      may be added to it, as for a model; "open" if files may be added, as for a cache, but the folder must not be
      replaced
    """

    path: str
    role: str
    folder: Literal["read", "closed", "open"] = "read"


def require_no_conflict(
    output: str | os.PathLike[str], inputs: Iterable[ProtectedInput], *, contents: Sequence[str] | None = None
) -> None:
    """Raise ConfigError if writing `output` would modify, replace or add to one of the inputs.

    Files are compared by identity, which covers links, relative paths and case-insensitive file systems. `output` need
    not exist. For an output folder, which replaces an existing one, `contents` are the names of the data files to be
    written in it.

    Examples
    --------
    >>> require_no_conflict("scores.csv", [ProtectedInput("customers.csv", "the input")])
    >>> require_no_conflict("scores.csv", [ProtectedInput("*.csv", "the input")])
    Traceback (most recent call last):
    gpupipe.errors.ConfigError: the output would be read as part of the input, *.csv
      where: scores.csv
      to do: choose another output path
    """
    path = Path(output)
    for each in inputs:
        if (problem := _problem(path, each, contents)) is not None:
            shown = f"{problem} {each.role}, {each.path}"
            raise ConfigError(shown, where=str(output), fix="choose another output path")


def _problem(output: Path, protected: ProtectedInput, contents: Sequence[str] | None) -> str | None:
    path = _local_path(protected.path)
    if path is None:
        return None
    existing = _status(output)
    if existing is not None:
        if _is_same(existing, _status(path)):
            return "the output would overwrite"
        files = list(_files(path)) if protected.folder == "read" else []
        if contents is None and any(_is_same(existing, _status(file)) for file in files):
            return "the output would overwrite a file of"
        if contents is not None and any(_names_below(file, output) is not None for file in (path, *files)):
            return "the output folder would replace"
    written = [output] if contents is None else [output / name for name in contents]
    if os.path.isdir(path):
        if protected.folder == "closed" and any(_names_in([output], path)):
            return "the output would be inside"
        if protected.folder == "read" and any(map(_is_read, _names_in(written, path))):
            return "the output would be read as part of"
    elif glob.has_magic(path) and not os.path.lexists(path):
        fixed, pattern = split_pattern(path)
        if any(is_match(names, pattern) for names in _names_in(written, fixed)):
            return "the output would be read as part of"
    return None


def _local_path(path: str) -> str | None:
    """Return the path of a local input, or None for a remote one."""
    for scheme in LOCAL_URLS:
        path = path.removeprefix(scheme)
    return None if "://" in path else os.path.expanduser(path)


def _files(path: str) -> Iterator[str]:
    """Yield the files in an existing folder, or those that match a glob."""
    if os.path.isdir(path):
        yield from TableFolder(path, "skip").walk(())
    elif glob.has_magic(path) and not os.path.lexists(path):
        yield from find_matches(path)


def _status(path: str | Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):  # missing, or not a valid name
        return None


def _is_same(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    return one is not None and other is not None and os.path.samestat(one, other)


def _names_in(paths: Iterable[Path], folder: str) -> Iterator[list[str]]:
    """Yield the path components from `folder` to each path inside it: those of a link and those of its target."""
    for path in paths:
        for real in {os.path.join(os.path.realpath(path.parent), path.name), os.path.realpath(path)}:
            if (names := _names_below(real, folder)) is not None:
                yield names


def _names_below(path: str, folder: str | Path) -> list[str] | None:
    """Return the path components from a folder to a path, or None if the path is not inside."""
    root = _status(folder)
    if root is None:
        return None
    below, names = os.path.realpath(os.path.dirname(os.path.abspath(path))), [os.path.basename(path)]
    while not _is_same(_status(below), root):
        if below == os.path.dirname(below):
            return None
        names.insert(0, os.path.basename(below))
        below = os.path.dirname(below)
    return names


def _is_read(names: Sequence[str]) -> bool:
    """Return True if a source that is a folder would read the file with these path components below it."""
    return not any(name.startswith((".", "_")) for name in names) and format_of(names[-1]) is not None

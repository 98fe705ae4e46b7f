"""The folder of a table: its files, and the check that symbolic links and locations in it stay inside."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from gpupipe.errors import DataError

FIX = "if you trust the table, set outside_files: true to read files outside of its folder"
Outside = Literal["refuse", "read", "skip"]
# Parsers of URLs disagree about them: they remove some characters, and end a path at others.
AMBIGUOUS = re.compile(r"^ | $|[\x00-\x1f\x7f\\?#]")
_SCHEME = re.compile(r"^(?:file:(?://)?(?=/)|(s3)[an](?=:))", re.IGNORECASE)


@dataclass(frozen=True)
class TableFolder:
    """A local folder, which may be a symbolic link; `outside` is what happens to links in it with targets outside."""

    path: str
    outside: Outside = "refuse"
    _inside: set[str] = field(default_factory=set, init=False, compare=False, repr=False)  # checked folders

    def require(self, path: str, is_link: bool | None = None) -> None:
        """Raise DataError if a path in the folder leads outside through a symbolic link.

        Costs one `os.path.realpath` for each folder, and one `os.lstat` for each file unless `is_link` is given.
        """
        parent = path.rpartition("/")[0]
        checked = [] if parent in self._inside else [parent]
        if os.path.islink(path) if is_link is None else is_link:
            checked.append(path)
        for each in checked if self.outside == "refuse" else ():
            if not _is_below(real := os.path.realpath(each), os.path.realpath(self.path)):
                what = f"a symbolic link leads outside of the folder of the table, to {real}"
                raise DataError(what, where=each, fix=f"move the file into the folder; {FIX}")
        self._inside.add(parent)

    def require_all(self) -> None:
        """Raise DataError as `require` for each path in the folder, and for pipes and devices, which may never end."""
        for folder, folders, names in os.walk(self.path):
            for path in (os.path.join(folder, name) for name in (*folders, *names)):
                self.require(path)
                if not os.path.isfile(path) and not os.path.isdir(path):
                    raise DataError("expected a regular file", where=path, fix="write the table again")

    def walk(self, hidden: tuple[str, ...] = ("_", "."), start: str = "") -> Iterator[str]:
        """Yield the files in the folder, or in its subfolder `start`; folders that begin with `hidden` are skipped.

        Links to folders are followed after everything else, and each folder is read once, so loops of links end. Raise
        DataError if a link to a folder leads outside.
        """
        root = os.path.realpath(self.path)
        links = [start or self.path]
        seen = set[str]()
        for link in links:  # more are added below
            for path, folders, names in os.walk(link):
                real = os.path.realpath(path)
                is_outside = not _is_below(real, root)
                if real in seen or (is_outside and (self.outside == "skip" or _is_below(root, real))):
                    folders.clear()
                    continue
                seen.add(real)
                if path != self.path:
                    self.require(path)
                folders[:] = [name for name in folders if not name.startswith(hidden)]
                links += filter(os.path.islink, (os.path.join(path, name) for name in folders))
                yield from (os.path.join(path, name) for name in names)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def without_scheme(location: str) -> str:
    """Return a location of a local file as a path; others as they are, with one scheme for S3."""
    return _SCHEME.sub(r"\1", location)


def require_inside(root: str, location: str, table: str) -> str:
    """Return an absolute location relative to the folder or URL `root`.

    Raise DataError if it leads outside, or may do so. `table` is for messages.

    >>> require_inside("s3://lake/shop/orders", "s3a://lake/shop/orders/data/part-0.parquet", "Iceberg table orders")
    'data/part-0.parquet'
    """
    root, path = without_scheme(root).rstrip("/") + "/", without_scheme(location)
    below = path.removeprefix(root)
    if below == path or AMBIGUOUS.search(below) or ".." in {*below.split("/"), *unquote(below).split("/")}:
        what = f"the table leads to a file outside of its folder: {repr(location[:300])[1:-1]}"
        raise DataError(what, where=table, fix=FIX)
    return below


def find_matches(pattern: str, outside: Outside = "skip") -> Iterator[str]:
    """Yield the local paths that match a glob, with ``**`` only files; `outside` is as in `TableFolder`."""
    root, parts = split_pattern(pattern)
    if "**" not in parts:  # also if .. follows it
        yield from glob.iglob(pattern)
        return
    first, hidden = parts.index("**"), () if any(part.startswith(".") for part in parts) else (".",)
    for start in glob.iglob(os.path.join(glob.escape(root), *parts[:first])):
        for path in TableFolder(root, outside).walk(hidden, start):
            if is_match(path[len(start.rstrip("/")) + 1 :].split("/"), parts[first:]):
                yield path


def split_pattern(pattern: str) -> tuple[str, list[str]]:
    """Return the folder before the first magic character of a glob, and the remaining parts."""
    parts = Path(os.path.abspath(pattern)).parts
    first = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return os.path.join(*parts[:first]), list(parts[first:])


def is_match(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return True if the parts of a path match those of a glob; wildcards do not match hidden names."""
    if not pattern:
        return not names
    is_hidden = bool(names) and names[0].startswith(".")
    if pattern[0] == "**":
        return is_match(names, pattern[1:]) or (bool(names) and not is_hidden and is_match(names[1:], pattern))
    if not names or (is_hidden and not pattern[0].startswith(".")):
        return False
    return fnmatchcase(names[0], pattern[0]) and is_match(names[1:], pattern[1:])

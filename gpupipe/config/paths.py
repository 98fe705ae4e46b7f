"""Resolution of relative paths in a configuration: working directory first, then the file's own folder."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

from gpupipe.config.document import Node
from gpupipe.config.environment import escape
from gpupipe.io.table_folder import find_matches

# The fields that contain paths; * is every item or key.
OF_TABLES = ("path", "prepare", "delta", "uri", "sql_options.directories")
PATH_FIELDS = (
    *map(".".join, product(("source", "tables.*"), OF_TABLES)),
    "features.*.kernel.use",
    "models.*.params.use",
)

_ELSEWHERE = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://|[A-Za-z]:[\\/]|/|~)")  # URL, drive, absolute path, home
_DATABASE = re.compile(r"^(?:sqlite|duckdb):///")  # then the path of a file
_FUNCTION = re.compile(r"(?<=\.py):\w+$")  # prepare: hooks.py:drop_test_rows


def resolve_path(path: str, folder: Path) -> str:
    """Return `path` resolved against the working directory, then against `folder`, that of the configuration file.

    A path is a file, folder or glob; a URL; a database file as a URI; or ``file.py:function``. It is unchanged if it is
    absolute, a URL, exists in the working directory, or exists nowhere (so that the reader's message shows the path as
    written).
    """
    if database := _DATABASE.match(path):
        return database[0] + resolve_path(path[database.end() :], folder)
    if _ELSEWHERE.match(path):
        return path
    function = _FUNCTION.search(path)
    file = path[: function.start()] if function else path
    if _is_there(Path(file)) or not _is_there(folder / file):
        return path
    return os.path.normpath(folder / path)


def _is_there(path: Path) -> bool:
    return os.path.exists(path) or (  # Path.exists raises if a name is too long
        glob.has_magic(str(path)) and next(find_matches(str(path)), None) is not None
    )


def resolve_paths(root: Node, folder: Path) -> None:
    """Resolve the paths in the document, in place."""
    for field in PATH_FIELDS:
        for node in root.at(*field.split(".")):
            if isinstance(node.value, str) and not (node.written is not None and _DATABASE.match(node.value)):
                _resolve(node, node.value, folder)


def _resolve(node: Node, path: str, folder: Path) -> None:
    node.value = resolve_path(path, folder)
    if node.written is not None and node.value != path:  # the written file may be in another folder
        written = node.written
        text, shown = f"{escape(str(folder))}/{written.text}", f"{folder}/{written.shown}"
        node.written = replace(written, text=text, shown=shown)

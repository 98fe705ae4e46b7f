"""Locations of settings in the configuration file, for errors that only the data shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gpupipe.config.document import Problem
from gpupipe.config.sections import ConfigOrigin
from gpupipe.errors import GpupipeError

STEPS = re.compile(r"[^.\[\]]+")
SETTING = re.compile(r"(source|split|evaluate|models|features|tables)(\[|\.[a-z_.]+$|$)|data\.[^/]+$")


@contextmanager
def locate_errors(origin: ConfigOrigin) -> Iterator[None]:
    """Add file, line and column to errors about settings raised in the ``with`` block."""
    try:
        yield
    except GpupipeError as error:
        if origin.path is not None and is_setting(error.where):
            problem = place_problem(origin, error.where, "", error.names)
            error.place(f"{problem.where}: {problem.path}", instead=error.where)
        raise


def is_setting(where: str) -> bool:
    """Return whether the location of an error is the path of a setting."""
    return SETTING.match(where) is not None


def is_in_section(where: str, section: str) -> bool:
    """Return whether the location of an error is in a section of the configuration."""
    return re.match(rf"{section}\b", where) is not None


def place_problem(origin: ConfigOrigin, path: str, what: str, names: Sequence[str] = ()) -> Problem:
    """Return a problem with its line and column.

    `path` is that of the setting, such as ``"features[2].standardize"``; trailing steps that are not in the file are
    ignored. If one of the column `names` is a value below `path`, the location is that value; later names win.
    """
    node = origin.document
    if node is None:
        return Problem("", path, what)
    is_key = False
    for step in STEPS.findall(path):
        below = node.child(step)
        if below is None:
            break
        node, is_key = below, isinstance(node.value, dict)
    written = list(node.leaves())
    for name in reversed(names):  # "table 'orders' has no column 'when'"
        found = [each for each in written if each.value == name]
        if found:  # the last one: a new name follows its inputs
            return Problem(found[-1].where, found[-1].path, what)
    where = node.key_where if is_key else node.where
    return Problem(where if node is not origin.document else str(origin.path or ""), node.path or path, what)

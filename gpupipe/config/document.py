"""Configuration tree whose values carry their location, and the problems found in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupipe.config.scalars import Scalar


@dataclass(frozen=True)
class Problem:
    """One error: its location in the file, the path of the setting as written, and what is wrong."""

    where: str
    path: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.path, self.what) if part)


class UnreadableDocument(Exception):
    """Text that is not a single YAML mapping; `problem` has the reason."""

    def __init__(self, where: str, what: str, path: str = "") -> None:
        self.problem = Problem(where, path, what)
        super().__init__(str(self.problem))


@dataclass(frozen=True)
class EnvironmentValue:
    """Value from the environment, as written in the configuration.

    - `text`: the text with ``${NAME}``, for writing the configuration.
    - `shown`: the same for messages, where a literal ``${`` is not escaped.
    - `is_word`: true if it was written without quotes.
    - `names`: the variables in it whose values must not be shown.
    """

    text: str
    shown: str
    is_word: bool
    names: tuple[str, ...] = ()


@dataclass
class Node:
    """Value of the configuration with its location."""

    value: Scalar | list[Node] | dict[str, Node]
    where: str  # location of the value: ``"configs/churn.yaml:12:5"``, or ``"--set seed=8"``
    key_where: str  # location of its key; for a list item, the same as `where`
    path: str  # path of the setting as written: ``"features[2].impute"``
    written: EnvironmentValue | None = None  # the text to write back, if it differs from the value

    def plain(self, as_written: bool = False) -> Any:
        """Return the plain value; with `as_written`, values from the environment are ``${NAME}``."""
        if as_written and self.written is not None:
            return self.written.shown
        if isinstance(self.value, dict):
            return {key: node.plain(as_written) for key, node in self.value.items()}
        return [node.plain(as_written) for node in self.value] if isinstance(self.value, list) else self.value

    def child(self, step: str) -> Node | None:
        """Return the value of a key or the item at an index, or None."""
        if isinstance(self.value, dict):
            return self.value.get(step)
        if isinstance(self.value, list) and step.isdecimal() and int(step) < len(self.value):
            return self.value[int(step)]
        return None

    def children(self) -> list[Node]:
        """Return the values of a mapping or the items of a list."""
        if isinstance(self.value, dict):
            return list(self.value.values())
        return self.value if isinstance(self.value, list) else []

    def leaves(self) -> Iterator[Node]:
        """Yield the scalars in the value."""
        if not isinstance(self.value, dict | list):
            yield self
            return
        for node in self.children():
            yield from node.leaves()

    def at(self, *steps: str) -> Iterator[Node]:
        """Yield the nodes at the end of a path, with lists replaced by their scalars; ``*`` is every key or item."""
        if not steps:
            yield from self.leaves() if isinstance(self.value, list) else [self]
            return
        for node in self.children() if steps[0] == "*" else [self.child(steps[0])]:
            if node is not None:
                yield from node.at(*steps[1:])


def build_tree(value: Any, where: str = "", path: str = "") -> Node:
    """Return the tree of a value that does not come from a file; an empty `where` means it comes from Python.

    NumPy and pandas scalars, arrays and indexes are converted to Python values. Anything else that is not a dict, list
    or tuple (a frame, a kernel, an op object) is one value.
    """
    inner: Any = value.tolist() if _is_array(value) else value
    value = inner
    if isinstance(value, Mapping):
        inner = {
            key: build_tree(item, where, join_path(path, key))
            for key, item in zip(map(_word, value), value.values(), strict=True)
        }
    elif isinstance(value, list | tuple):
        inner = [build_tree(item, where, f"{path}[{i}]") for i, item in enumerate(value)]
    return Node(inner, where, where, path)


def _is_array(value: Any) -> bool:
    """Return whether a value is a NumPy scalar or 1-D array, or a pandas Series or Index."""
    package = type(value).__module__.partition(".")[0]
    return package in ("numpy", "pandas") and hasattr(value, "tolist") and getattr(value, "ndim", 0) < 2


def _word(key: object) -> str:
    """Return a key as text, as YAML would write it."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def join_path(path: str, key: str) -> str:
    """Return ``"path.key"``, or `key` at the top level."""
    return f"{path}.{key}" if path else key

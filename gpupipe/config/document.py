"""A configuration as a tree in which every value remembers where it was written, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpupipe.config.scalars import Scalar


@dataclass(frozen=True)
class Problem:
    """One mistake: where it stands, the path to it as it was written, and what is wrong."""

    where: str
    path: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.path, self.what) if part)


class UnreadableDocument(Exception):
    """The text is not a single YAML mapping; `problem` says why."""

    def __init__(self, where: str, what: str, path: str = "") -> None:
        self.problem = Problem(where, path, what)
        super().__init__(str(self.problem))


@dataclass(frozen=True)
class EnvironmentValue:
    """A value from the environment, as the configuration spells it.

    Attributes
    ----------
    text : str
        With ``${NAME}`` in it, for a configuration that is written back.
    shown : str
        The same for messages: a plain ``${`` is not escaped.
    is_word : bool
        Whether it was plain, not in quotes.
    names : tuple of str
        The variables in it whose values must not be shown.
    """

    text: str
    shown: str
    is_word: bool
    names: tuple[str, ...] = ()


@dataclass
class Node:
    """One value of the configuration.

    Attributes
    ----------
    value : scalar, list of Node, or dict of str to Node
    where : str
        Where the value stands: ``"configs/churn.yaml:12:5"``, or ``"--set seed=8"``.
    key_where : str
        Where its key stands; for the item of a list, the same as `where`.
    path : str
        The way to it as it was written: ``"features[2].impute"``.
    written : EnvironmentValue, optional
        How it is written back, where that is not its value.
    """

    value: Scalar | list[Node] | dict[str, Node]
    where: str
    key_where: str
    path: str
    written: EnvironmentValue | None = None

    def plain(self) -> Any:
        """Return the value without its marks."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def shown(self) -> Any:
        """Return the value for messages: what came from the environment is ``${NAME}``."""
        if self.written is not None:
            return self.written.shown
        if isinstance(self.value, dict):
            return {key: node.shown() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.shown() for node in self.value]
        return self.value


def build_tree(value: Any, where: str = "", path: str = "") -> Node:
    """Return the tree of a value that was not read from a file; an empty `where` means it is from Python.

    NumPy's and pandas' scalars, arrays and indexes become Python's. Everything else that is not a dict, list or tuple
    (a frame, a kernel, an op that was built already) is one value.
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
    """Return a key as it would be written: keys are text everywhere."""
    return str(key).lower() if isinstance(key, bool) else str(key)


def join_path(path: str, key: str) -> str:
    """Return ``"path.key"``, or the key alone at the top level."""
    return f"{path}.{key}" if path else key

"""YAML with comments beside its lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

import yaml

from gpupipe.config.environment import escape
from gpupipe.config.scalars import Dumper

WIDTH = 110
LONGEST_LINE = 60  # a longer line has its comment above it


class Document:
    """The text of a configuration, written from top to bottom; the comments of a block are aligned."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._block: list[tuple[str, str]] = []

    def line(self, text: str, comment: str = "") -> None:
        """Add a line, with a comment beside it or, where it is long, above it."""
        indent = text[: len(text) - len(text.lstrip())]
        if comment and len(text) > LONGEST_LINE:
            self.remark(comment, indent)
            comment = ""
        self._block.append((text, comment))

    def list(self, key: str, values: Iterable[Any], comment: str = "") -> None:
        """Add ``key: [a, b]``, on several lines where one does not hold it."""
        if comment:
            self.remark(comment, key[: len(key) - len(key.lstrip())])
        lines = textwrap.wrap(f"{key}: {flow(list(values))}", WIDTH, subsequent_indent=" " * (len(key) + 3),
                              break_long_words=False, break_on_hyphens=False)  # fmt: skip
        self._block += [(line, "") for line in lines]

    def remark(self, text: str, indent: str = "") -> None:
        """Add a comment on lines of its own."""
        marker = f"{indent}# "
        self._block += [(line, "") for line in textwrap.wrap(text, WIDTH, initial_indent=marker, break_on_hyphens=False,
                                                            subsequent_indent=marker)]  # fmt: skip

    def blank(self) -> None:
        """End a block."""
        column = max((len(text) for text, comment in self._block if comment), default=0)
        for text, comment in self._block:
            self._done.append(f"{text:{column}}  # {comment}" if comment else text)
        self._done.append("")
        self._block = []

    def text(self) -> str:
        """Return all of it."""
        self.blank()
        return "\n".join(self._done).rstrip() + "\n"


def flow(value: Any) -> str:
    """Return a value as YAML on one line, quoted where it must be; ``${`` is no reference to the environment."""
    text = yaml.dump(
        [_escaped(value)], Dumper=Dumper, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10**6
    )
    return text.strip()[1:-1]


def _escaped(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return escape(value) if isinstance(value, str) else value

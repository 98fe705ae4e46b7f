"""YAML text with aligned comments."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

import yaml

from gpupipe.config.environment import escape
from gpupipe.config.scalars import Dumper
from gpupipe.report.text import printable

WIDTH = 110
LONGEST_TEXT, LONGEST_COMMENT = 66, 80  # if longer, the comment is on the line above
LINE_BREAKS = set("\x85\u2028\u2029")  # in YAML; PyYAML folds them into spaces unless it escapes them


class YamlDocument:
    """The text of a configuration, written from top to bottom, with the comments of each block aligned."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._block: list[tuple[str, str]] = []

    def line(self, text: str, comment: str = "") -> None:
        """Add a line with a comment after it or, if either is long, above it."""
        if comment and (len(text) > LONGEST_TEXT or len(comment) > LONGEST_COMMENT):
            self.comment(comment, _indent(text))
            comment = ""
        self._block.append((text, printable(comment)))

    def list(self, key: str, values: Iterable[Any], comment: str = "") -> None:
        """Add ``key: [a, b]``, wrapped to several lines if it is long."""
        if comment:
            self.comment(comment, _indent(key))
        lines, indent = [f"{key}: ["], " " * (len(key) + 3)
        for i, value in enumerate(values):
            item = f", {flow(value)}" if i else flow(value)
            if len(lines[-1]) + len(item) > WIDTH:
                lines[-1] += ","
                lines.append(indent + item.removeprefix(", "))
            else:
                lines[-1] += item
        lines[-1] += "]"
        self._block += [(line, "") for line in lines]

    def comment(self, text: str, indent: str = "") -> None:
        """Add a comment on separate lines."""
        wrapped = textwrap.wrap(printable(text), WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
        self._block += [(f"{indent}# {line}", "") for line in wrapped]

    def blank(self) -> None:
        """End a block."""
        column = max((len(text) for text, comment in self._block if comment), default=0)
        self._done += [f"{text:{column}}  # {comment}" if comment else text for text, comment in self._block]
        self._done.append("")
        self._block = []

    def text(self) -> str:
        """Return the complete text."""
        self.blank()
        return "\n".join(self._done).rstrip() + "\n"


def _indent(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def flow(value: Any) -> str:
    """Return a value as YAML on one line, quoted if needed, with ``${`` escaped."""
    text = _dumped(value, allow_unicode=True)
    return _dumped(value, allow_unicode=False) if LINE_BREAKS.intersection(text) else text


def _dumped(value: Any, allow_unicode: bool) -> str:
    text = yaml.dump(
        [_escaped(value)],
        Dumper=Dumper,
        default_flow_style=True,
        allow_unicode=allow_unicode,
        sort_keys=False,
        width=10**6,
    )
    return text.strip()[1:-1]


def _escaped(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return escape(value) if isinstance(value, str) else value

"""HTML pages of gpupipe as their elements and text, and a text that breaks pages that do not escape it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}\x1b[31m\x00$x_1$"
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Collects elements, attributes and the text of the page; fails on a tag that closes nothing."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    def check_self_contained(self) -> None:
        """Raise AssertionError if the page runs a script, or refers to anything outside itself."""
        for tag, attributes in self.elements:
            assert tag not in {"script", "iframe", "object", "embed", "base", "form"}
            assert not [name for name in attributes if name.startswith("on")]
            for name in ("src", "href", "srcset", "action", "xlink:href"):
                value = attributes.get(name)
                assert value is None or value.startswith(("#", "data:"))
        policy = next(a["content"] for _, a in self.elements if a.get("http-equiv") == "Content-Security-Policy")
        assert policy is not None and policy.startswith("default-src 'none'")

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

"""MyST Markdown fragments for generated pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_CODE = re.compile(r"(``.+?``|`[^`]+`)", re.DOTALL)
_OPTION = r'(?<![\w.-])--[a-z][a-z-]*(?: \w[\w.]*=(?:"[^"]*"|[\w.]*\w))?'
_SPECIAL = re.compile(r"([\\*<>\[\]|])")


def inline(text: str, links: Mapping[str, str] | None = None, here: str = "") -> str:
    """Return a line of a docstring as Markdown: code spans are kept, every other special character is escaped.

    Options, such as ``--set seed=8``, become code.

    Parameters
    ----------
    text : str
        Prose with code in single or double backticks, as in docstrings and field descriptions.
    links : mapping of str to str, optional
        Code to the label that it links to.
    here : str
        Label of the page: code does not link to its own page.
    """
    parts = _CODE.split(mark_as_code(" ".join(text.split()), _OPTION))
    return "".join(_code(part, links or {}, here) if i % 2 else escape(part) for i, part in enumerate(parts))


def mark_as_code(text: str, pattern: str) -> str:
    """Return text with what matches a pattern, outside of code spans, as code."""
    parts = _CODE.split(text)
    return "".join(part if i % 2 else re.sub(pattern, r"`\g<0>`", part) for i, part in enumerate(parts))


def escape(text: str) -> str:
    """Return plain text with Markdown's special characters escaped."""
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", _SPECIAL.sub(r"\\\1", text))


def code(text: object) -> str:
    """Return a code span; its content may hold backticks."""
    text = str(text)
    fence = "``" if "`" in text else "`"
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def _code(span: str, links: Mapping[str, str], here: str) -> str:
    content = span.strip("`").strip()
    target = links.get(content)
    return code(content) if target is None or target == here else link(code(content), target)


def link(text: str, label: str) -> str:
    """Return a link to a label of any page; the text is Markdown."""
    return f"[{text}](#{label})"


def paragraphs(docstring: str, links: Mapping[str, str] | None = None, here: str = "") -> str:
    """Return the prose of a docstring, one line a paragraph; list items stay items."""
    blocks = [block for block in re.split(r"\n\s*\n", docstring.strip()) if block.strip()]
    return "\n\n".join(_block(block, links, here) for block in blocks)


def _block(block: str, links: Mapping[str, str] | None, here: str) -> str:
    if re.match(r"=+(  ?=+)+\s*\n", block.lstrip()):
        return _simple_table(block, links, here)
    if not block.lstrip().startswith("- "):
        return inline(block, links, here)
    items = re.split(r"(?m)^\s*- ", block)[1:]
    return "\n".join(f"- {inline(item, links, here)}" for item in items)


def _simple_table(block: str, links: Mapping[str, str] | None, here: str) -> str:
    """Return a simple table of reStructuredText as a pipe table; a line with an empty first cell continues the row."""
    lines = block.strip().splitlines()
    starts = [match.start() for match in re.finditer("=+", lines[0])]
    ends = [*starts[1:], None]
    rows: list[list[str]] = []
    for line in lines[1:]:
        cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        if set(line) <= {"=", " "}:
            continue
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)]
    header, *body = [[inline(cell, links, here) for cell in row] for row in rows]
    return table(header, body)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a pipe table; cells are Markdown, in which bars are escaped here."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(cell: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", cell.replace("\n", " ")) or " "


def fence(text: str, language: str = "", options: Mapping[str, str] | None = None) -> str:
    """Return a fenced block; a language in braces makes it a directive."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * max(3, longest + 1)
    head = "".join(f":{name}: {value}\n" for name, value in (options or {}).items())
    return f"{ticks}{language}\n{head}{text.rstrip()}\n{ticks}"


def definition(term: str, description: str) -> str:
    """Return an item of a definition list; the description may have several paragraphs."""
    body = description.strip().replace("\n", "\n  ")
    return f"{term}\n: {body}\n"


def page(label: str, title: str, *blocks: str) -> str:
    """Return a page with a label and a title; empty blocks are skipped."""
    return "\n\n".join([f"({label})=\n# {title}", *(block.strip() for block in blocks if block.strip())]) + "\n"

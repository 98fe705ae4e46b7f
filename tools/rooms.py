"""Rooms of the product: ``python -m tools.rooms`` writes a page of its packages, with a picture of its imports."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE, PICTURE = ROOT / "docs/design/rooms.md", ROOT / "docs/design/rooms.svg"
SOURCES = (ROOT, ROOT / "kernels")
# Pixels
WIDTH = 1180
BOX_HEIGHT = 38
ROW_HEIGHT = 84
MARGIN = 16

INTRODUCTION = """\
# Rooms

`python -m tools.rooms` writes this page from the code: the packages from the top down, with their modules. A package
imports from rows below its own only, and no two modules import each other while they run; `make check` and the tests
hold that.

```{image} rooms.svg
:alt: The packages in layers. An arrow is an import, unless other arrows lead to the same place.
```

"""


@cache
def modules() -> dict[str, Path]:
    """Return the file of each module of the product, by dotted name."""
    found = {}
    for source, package in zip(SOURCES, ("gpupipe", "gpupipe_kernels"), strict=True):
        for path in sorted((source / package).rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(name: str) -> frozenset[str]:
    """Return the modules of the product that a module imports while it runs, at its top or in its functions."""
    return frozenset(_imports(ast.parse(modules()[name].read_text())))


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        children: list[ast.AST] = [*node.orelse]
    else:
        children = [*ast.iter_child_nodes(node)]
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules())
    elif isinstance(node, ast.ImportFrom) and node.module in modules():
        for alias in node.names:
            part = f"{node.module}.{alias.name}"
            yield part if part in modules() else str(node.module)
    for child in children:
        if not isinstance(child, ast.expr):
            yield from _imports(child)


def layers() -> list[list[str]]:
    """Return the packages of each layer, from the top down, as the contract of import-linter lists them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    packages = [[name for name in row.split(" | ") if modules()[name].name == "__init__.py"] for row in rows]
    return [row for row in packages if row]


def room_imports() -> dict[str, set[str]]:
    """Return which packages each package imports, without those that it also reaches through others."""
    level = {name: n for n, row in enumerate(layers()) for name in row}

    def room_of(module: str) -> str | None:
        return next((room for room in level if f"{module}.".startswith(f"{room}.")), None)

    direct: dict[str, set[str]] = {room: set() for room in level}
    for module in modules():
        if room := room_of(module):
            others = {other for name in imports(module) if (other := room_of(name))}
            direct[room] |= {other for other in others if level[other] > level[room]}

    def reached(room: str) -> set[str]:
        return direct[room].union(*map(reached, direct[room]))

    return {room: others - set().union(*map(reached, others)) for room, others in direct.items()}


def summary(name: str) -> str:
    """Return the first sentence of the docstring of a module."""
    text = ast.get_docstring(ast.parse(modules()[name].read_text())) or ""
    return text.split("\n\n")[0].replace("\n", " ")


def below(room: str) -> list[str]:
    """Return the modules in a package, itself first."""
    return [name for name in modules() if f"{name}.".startswith(f"{room}.")]


def picture() -> str:
    """Return the packages in layers and the imports between them as SVG."""
    rows = layers()
    place = {}
    for at, row in enumerate(rows):
        step = (WIDTH - 2 * MARGIN) / len(row)
        for nth, room in enumerate(row):
            place[room] = (MARGIN + step * (nth + 0.5), MARGIN + ROW_HEIGHT * at, min(step - 14, 220))
    height = MARGIN + ROW_HEIGHT * (len(rows) - 1) + BOX_HEIGHT + MARGIN
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" text-anchor="middle">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for room, others in room_imports().items():
        x, y, _ = place[room]
        for other in sorted(others):
            to_x, to_y, _ = place[other]
            middle = (y + BOX_HEIGHT + to_y) / 2
            curve = f"M{x:.0f} {y + BOX_HEIGHT} C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y}"
            lines.append(f'<path d="{curve}" fill="none" stroke="#8a94a6" stroke-width="1.2"/>')
    for room, (x, y, width) in place.items():
        label = escape(room.removeprefix("gpupipe."))
        box = f'x="{x - width / 2:.0f}" y="{y}" width="{width:.0f}" height="{BOX_HEIGHT}" rx="6"'
        lines += [
            f'<rect {box} fill="#eef2f9" stroke="#3b5b92"/>',
            f'<text x="{x:.0f}" y="{y + 24}" font-size="15" fill="#1d2a44">{label}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def page() -> str:
    """Return the page of the packages and their modules."""
    parts = [INTRODUCTION]
    for row in layers():
        for room in row:
            parts.append(f"## {room}\n\n{summary(room)}\n\n")
            inner = [name for name in below(room) if name != room and not name.endswith("__main__")]
            parts += [f"- `{name.removeprefix(room + '.')}`: {_entry(name)}\n" for name in inner]
            parts.append("\n")
    return "".join(parts)


def _entry(name: str) -> str:
    """Return the summary of a module in Markdown."""
    return re.sub(r"``(.+?)``", r"`\1`", summary(name))


def main() -> None:
    """Write the page and its picture."""
    PAGE.write_text(page())
    PICTURE.write_text(picture())


if __name__ == "__main__":
    main()

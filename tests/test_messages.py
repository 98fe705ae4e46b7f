"""Independence of the code from the wording of messages: only classes and attributes decide."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted([*ROOT.glob("gpupipe/**/*.py"), *ROOT.glob("kernels/gpupipe_kernels/**/*.py")])
PARTS = {"what", "where", "fix"}  # of a GpupipeError
NOTES = {"note", "warning"}
SEARCHES = {
    "startswith",
    "endswith",
    "find",
    "index",
    "count",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
}
MATCHES = {"search", "match", "fullmatch", "findall", "finditer"}

LIBRARY = re.compile(r"# .*\bmessages? of \w+", re.IGNORECASE)
"""A comment that names the library whose message is searched."""


def searched(source: str) -> Iterator[str]:
    """Yield each expression that searches a message, unless a comment there says of which library it is."""
    tree, lines = ast.parse(source), source.splitlines()
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name} | {"error"}

    def is_message(node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "repr"):
            node = node.args[0]
            node = node.value if isinstance(node, ast.Attribute) and node.attr == "__cause__" else node
            return isinstance(node, ast.Name) and node.id in caught
        if isinstance(node, ast.Attribute):
            return node.attr in PARTS and isinstance(node.value, ast.Name) and node.value.id in caught
        return isinstance(node, ast.Name) and node.id in NOTES

    for node in ast.walk(tree):
        found: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            is_wording = any(isinstance(side, ast.Constant) and side.value for side in sides)
            found = [side for side in sides if is_wording or not isinstance(side, ast.Name)]
            found += [side for op, side in zip(node.ops, node.comparators, strict=True) if isinstance(op, ast.In)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found = [node.func.value] if node.func.attr in SEARCHES else []
            found += node.args if node.func.attr in MATCHES else []
        if not isinstance(node, ast.expr) or not any(map(is_message, found)):
            continue
        if not any(map(LIBRARY.search, lines[node.lineno - 2 : node.lineno])):
            yield ast.unparse(node)


def test_no_code_depends_on_the_wording_of_a_message() -> None:
    found = {path.relative_to(ROOT).as_posix(): list(searched(path.read_text())) for path in MODULES}
    assert {path: expressions for path, expressions in found.items() if expressions} == {}


@pytest.mark.parametrize(
    "code",
    [
        "try: f()\nexcept DataError as e:\n    if 'fields' in e.what: g()",
        "try: f()\nexcept DataError as e:\n    if str(e) == 'no rows': g()",
        "try: f()\nexcept DataError as e:\n    names = re.findall(PATTERN, e.what)",
        "[note for note in notes if note.startswith('skipped ')]",
        "[note for note in notes if repr(name) in note]",
    ],
)
def test_a_search_is_found(code: str) -> None:
    assert len(list(searched(code))) == 1


COUNTED = r"\{[^{}]*:,\} (?:(?:more|other|further|test|training) )?[a-z]+s\b"
NEVER_ONE = {
    "inference/drift/reference.py": 1, "pipeline/records/card/column_facts.py": 1,
    "cli/export.py": 1,
}  # fmt: skip

TEXTS = ("report", "inference/drift", "inference/prediction", "pipeline/records/card", "timeline/display", "cli")


def test_counts_that_may_be_one_have_a_singular() -> None:
    """`count_noun` writes the counts of reports, cards and commands, except those that are never 1."""
    found: dict[str, int] = {}
    for folder in TEXTS:
        for path in sorted((ROOT / "gpupipe" / folder).rglob("*.py")):
            if n := len(re.findall(COUNTED, path.read_text(encoding="utf-8"))):
                found[path.relative_to(ROOT / "gpupipe").as_posix()] = n
        for path in sorted((ROOT / "gpupipe" / folder).rglob("*.html")):
            text = path.read_text(encoding="utf-8")
            assert not re.findall(r'\{\{ "s" if |number \}\} more [a-z]+s', text), path.name
    assert found == NEVER_ONE

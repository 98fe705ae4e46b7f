"""The style check of the prose: it finds phrases in every kind of text, and none in code."""

from __future__ import annotations

import json

import pytest

from tools.prose import findings

NOTEBOOK = json.dumps({"cells": [{"cell_type": "markdown", "source": ["# Title\n", "This is no `file`."]}]})


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("a.py", '"""What a run keeps."""\n', [(1, "opening")]),
        ("a.py", 'def load():\n    """Who reads the file."""\n', [(2, "opening")]),
        ("a.py", 'text = """What a run keeps."""\n', []),
        ("a.py", '"""A reader.\n\nA folder is no\nfile."""\n', [(3, "is no")]),
        ("a.py", "x = 1  # data lies in memory\n", [(1, "lie")]),
        ("a.py", 'raise ValueError(f"{name!r} is no number")\n', [(1, "is no")]),
        ("a.py", "def test_a_folder_is_no_file() -> None: ...\n", [(1, "is no")]),
        ("a.py", "behind = who.calls\n", []),
        ("a.py", '"""There is no GPU, and it is no longer needed."""\n', []),
        ("a.py", "x = 1  # a proxy is behind it  # prose: allow behind (HTTP proxies)\n", []),
        ("a.py", 'x = """\nbehind it\n"""  # prose: allow behind, lie (HTTP proxies)\n', []),
        ("a.py", "x = 1  # behind it  # prose: allow lie (of another rule)\n", [(1, "behind")]),
        ("a.py", "x = 1  # behind it  # prose: allow behind\n", [(1, "behind"), (1, "behind")]),
        (
            "a.md",
            "# Title\n\nWhoever `lies in` code.\n\n```\nat hand\n```\nmend it\n",
            [(3, "who calls"), (8, "archaic")],
        ),
        ("a.ipynb", NOTEBOOK, [(2, "is no")]),
        ("a.yaml", "a: 1\nb: 2  # in place of a\n", [(2, "in place of")]),
    ],
)
def test_findings(path: str, source: str, expected: list[tuple[int, str]]) -> None:
    assert [(finding.line, finding.rule.name) for finding in findings(path, source)] == expected

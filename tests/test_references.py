"""References to Python functions in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe.references import split_reference


@pytest.mark.parametrize(
    ("reference", "file", "function"),
    [
        ("hooks.py:drop", "hooks.py", "drop"), ("/a b/c:d.py:_f1", "/a b/c:d.py", "_f1"),
        (r"C:\code\hooks.py:größe", r"C:\code\hooks.py", "größe"),
    ],
)  # fmt: skip
def test_a_reference_is_a_file_and_a_function(reference: str, file: str, function: str) -> None:
    assert split_reference(reference) == (Path(file), function)


@pytest.mark.parametrize(
    "reference", ["", "hooks.py", "hooks.py:", ":drop", "hooks:drop", "hooks.py:1st", "hooks.py:a b"]
)
def test_what_is_not_a_reference_is_refused(reference: str) -> None:
    with pytest.raises(ValueError, match=r"expected file.py:function, got "):
        split_reference(reference)

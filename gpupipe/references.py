"""References to Python functions in files: ``file.py:function``. Standard library only."""

from __future__ import annotations

import re
from pathlib import Path

REFERENCE = re.compile(r"(.+\.py):([^\W\d]\w*)")


def split_reference(reference: str) -> tuple[Path, str]:
    """Return the file and the function name of a reference.

    Raise ValueError if `reference` is not of the form ``file.py:function``.

    Examples
    --------
    >>> split_reference("hooks.py:drop_test_rows")[1]
    'drop_test_rows'
    """
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise ValueError(f"expected file.py:function, got {reference!r}")
    return Path(match[1]), match[2]

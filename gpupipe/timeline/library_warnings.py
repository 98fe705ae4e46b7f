"""Warnings of libraries during a run, as notes of its timeline in one line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from gpupipe.timeline.timeline import Timeline
from gpupipe.user_warnings import PredictionWarning, RunWarning

MOST_CHARACTERS = 300
_OWN = str(Path(__file__).parents[1])
# Of XGBoost: [12:00:00] WARNING: /src/learner.cc:740: text
_PLACE = re.compile(r"^(?:\[[\d:]+\]\s*)?(?:WARNING:?\s*)?(?:/\S+?:\d+:\s*)?")


@contextmanager
def note_library_warnings(timeline: Timeline) -> Iterator[None]:
    """Add the warnings of libraries in the ``with`` block to the innermost stage, each once, instead of printing them.

    A library repeats its warnings in every fold, with a path and a line of its code. Warnings of the user's own code,
    such as a hook, and those of gpupipe are shown as they are.
    """
    show, known = warnings.showwarning, set[tuple[str, str]]()

    def note(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        library, text = library_of(filename), plain_text(str(message))
        if not library or issubclass(category, PredictionWarning | RunWarning):
            show(message, category, filename, lineno, file, line)
        elif (library, text) not in known:
            known.add((library, text))
            timeline.warn(f"{text} ({library})")

    warnings.showwarning = note
    try:
        yield
    finally:
        if warnings.showwarning is note:
            warnings.showwarning = show


def library_of(filename: str) -> str:
    """Return the package of a source file, ``""`` for files that are not in an installed package.

    >>> library_of("/opt/lib/python3.12/site-packages/sklearn/utils/validation.py"), library_of("/home/me/hook.py")
    ('sklearn', '')
    """
    found = re.search(r"[/\\](?:site|dist)-packages[/\\](\w+)", filename)
    return found[1] if found else "gpupipe" if filename.startswith(_OWN) else ""


def plain_text(message: str) -> str:
    """Return the first paragraph of a message on one line, without a time and a place in the code of its library.

    >>> plain_text("[12:00:00] WARNING: /src/learner.cc:740: \\nParameters: { \\"a\\" } are not used.\\n\\nMore")
    'Parameters: { "a" } are not used.'
    """
    text = " ".join(message.split("\n\n")[0].split())
    return _PLACE.sub("", text)[:MOST_CHARACTERS]

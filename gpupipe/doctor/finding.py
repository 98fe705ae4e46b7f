"""What doctor says about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    level : {"ok", "warning", "error"}
        warning: the machine works, but not at its best, or not for certain. error: something is broken.
    check : str
        What was looked at.
    found : str
        What was found, in words.
    fix : str
        What to do, a command wherever one does it; empty where nothing is to be done.
    """

    level: Level
    check: str
    found: str
    fix: str = ""

"""Result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    - `level`: warning: the machine works, but slower than it could or not reliably. error: something is broken.
    - `found`: state of the machine, as text.
    - `fix`: what to do, as a command if possible; empty if no action is required.
    """

    level: Level
    check: str
    found: str
    fix: str = ""

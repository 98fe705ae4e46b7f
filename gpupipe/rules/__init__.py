"""Rules of columns: what they say, and which rows of an encoded table are against them."""

from __future__ import annotations

from gpupipe.rules.broken import Broken, lines, merged
from gpupipe.rules.settings import ColumnRules

__all__ = ["Broken", "ColumnRules", "lines", "merged"]

"""Figures as people read them. What is missing (None, NaN) is a dash."""

from __future__ import annotations

import math
from typing import Any

from gpupipe.units import MISSING

TAIL_LINES = 12


def printable(text: str, keep: str = "") -> str:
    """Return `text` with what is no visible character, save those in `keep`, as an escape: ``\\x1b``, ``\\n``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def last_lines(text: str) -> str:
    """Return the end of what a failed process printed: an error is one screen."""
    return "\n".join(text.strip().splitlines()[-TAIL_LINES:])


def number(value: Any) -> str:
    """Four significant places: ``0.8423``, ``12.35``, ``1,234.5``, ``3.1e-06``; integers in full, text as it is."""
    if value is None or isinstance(value, str):
        return value or MISSING
    if isinstance(value, int):
        return f"{value:,}"
    value = float(value)
    size = abs(value)
    if math.isnan(value):
        return MISSING
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    if size < 0.0001 or size >= 1e12:
        return f"{value:.2e}"
    if size < 1:
        return f"{value:.4f}"
    return f"{value:.3f}" if size < 10 else f"{value:.2f}" if size < 1000 else f"{value:,.1f}"


def signed(value: float) -> str:
    """`number` with its sign, the minus a real one: ``+0.0123``, ``−0.0123``."""
    return ("−" if value < 0 else "+") + number(abs(value))


def share(value: float, whole: float) -> float:
    """How much of `whole` `value` is, in percent between 0 and 100: the length of a bar."""
    return round(min(max(100 * value / whole, 0.0), 100.0), 3) if whole > 0 else 0.0


def metric(values: Any, name: str) -> str:
    """Metric `name` of a mapping, with its spread over the folds where ``NAME_std`` is there: ``0.842 ± 0.005``."""
    spread = values.get(f"{name}_std")
    return number(values.get(name)) + (f" ± {number(spread)}" if spread is not None else "")


def metric_names(values: Any) -> list[str]:
    """The names in a mapping of metrics, less those of the spreads."""
    return [name for name in values if not (name.endswith("_std") and name.removesuffix("_std") in values)]


def percent(fraction: float | None) -> str:
    """``0 %``, ``<0.1 %``, ``12.3 %``."""
    if fraction is None or math.isnan(fraction):
        return MISSING
    if fraction == 0:
        return "0 %"
    return "<0.1 %" if fraction < 0.001 else f"{100 * fraction:.1f} %"

"""Figures as people read them. What is missing (None, NaN) is a dash."""

from __future__ import annotations

import math
from typing import Any

MISSING = "–"


def printable(text: str, keep: str = "") -> str:
    """Return `text` with what is no visible character, save those in `keep`, as an escape: ``\\x1b``, ``\\n``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


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


def seconds(value: float | None) -> str:
    """``12 ms``, ``1.24 s``, ``2 min 05 s``, ``3 h 07 min``."""
    if value is None:
        return MISSING
    if value < 0.9995:
        return f"{value * 1000:.0f} ms" if value >= 0.0095 else f"{value * 1000:.1f} ms"
    if value < 59.995:
        return f"{value:.2f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def whole_seconds(value: float) -> str:
    """``0 s``, ``12 s``, ``2 min 05 s``, ``3 h 07 min``: for times that are still running."""
    return f"{round(value)} s" if value < 59.5 else seconds(value)


def size(n_bytes: float | None) -> str:
    """``512 B``, ``1.5 KiB``, ``2.3 GiB``."""
    if n_bytes is None:
        return MISSING
    if n_bytes < 1024:
        return f"{n_bytes:.0f} B"
    power = min(int(math.log(n_bytes, 1024)), 4)
    return f"{n_bytes / 1024**power:.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


def rate(rows_per_second: float | None) -> str:
    """``820 rows/s``, ``235k rows/s``, ``1.2M rows/s``."""
    if rows_per_second is None:
        return MISSING
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rows_per_second >= unit:
            scaled = rows_per_second / unit
            return f"{scaled:.{0 if scaled >= 100 else 1}f}{name} rows/s"
    return f"{rows_per_second:.0f} rows/s"

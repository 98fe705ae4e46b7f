"""Ticks of an axis of times."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from gpupipe.report.axes import Tick

if TYPE_CHECKING:
    from gpupipe.typing import Array

MOST_TICKS = 7
MOST = (1 << 63) - 1  # microseconds in a time of NumPy
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAY = 86_400_000_000  # in microseconds
ROUND = tuple(m * 10**k for k, m in product(range(6), (1, 2, 5)))
# NumPy's code of a calendar unit, its mean length in microseconds, and the distances of ticks in it.
UNITS = (
    ("us", 1, ROUND),
    ("s", 1_000_000, (1, 5, 15, 30)),
    ("m", 60_000_000, (1, 5, 15, 30)),
    ("h", 3_600_000_000, (1, 3, 6, 12)),
    ("D", DAY, (1, 2, 7, 14)),
    ("M", DAY * 30.436875, (1, 3, 6)),
    ("Y", DAY * 365.2425, ROUND),
)


def time_ticks(low: float, high: float) -> list[Tick]:
    """Return calendar times between two times, in microseconds since 1970 in UTC, with short labels.

    Examples
    --------
    >>> [label for _, label in time_ticks(1_650_000_000_000_000, 1_680_000_000_000_000)]
    ['Jul', 'Oct', '2023']
    """
    import numpy as np

    unit, step = _unit_and_step(high - low)
    origin = 1970 if unit == "Y" else 0  # years are counted from 0, so that decades begin with one
    ends = np.array([max(int(low), -MOST), min(int(high), MOST)]).astype("M8[us]")
    first, last = (ends.astype(f"M8[{unit}]").astype(int) + origin).tolist()
    found = []
    for position in range(-(-first // step) * step, last + 1, step):
        at = np.asarray(position - origin).astype(f"M8[{unit}]")
        place = float(at.astype("M8[us]").astype(int))
        if low <= place <= high:
            found.append((place, _label(at, unit)))
    return found


def _unit_and_step(microseconds: float) -> tuple[str, int]:
    """Return the first calendar unit, and distance of ticks in it, of which a duration has few enough."""
    for unit, length, steps in UNITS:
        for step in steps:
            if microseconds / (length * step) <= MOST_TICKS:
                return unit, step
    return unit, step


def _label(at: Array, unit: str) -> str:
    """Return the part of a time that differs from tick to tick, or the next larger one at its first value."""
    year = int(at.astype("M8[Y]").astype(int)) + 1970
    month = int(at.astype("M8[M]").astype(int)) % 12
    if unit == "Y" or (unit == "M" and month == 0):
        return str(year).replace("-", "−")
    day = int((at.astype("M8[D]") - at.astype("M8[M]").astype("M8[D]")).astype(int)) + 1
    if unit == "M" or (unit == "D" and day == 1):
        return MONTHS[month]
    in_day = int((at.astype("M8[us]") - at.astype("M8[D]").astype("M8[us]")).astype(int))
    if unit == "D" or in_day == 0:
        return f"{day} {MONTHS[month]}"
    seconds, fraction = divmod(in_day, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if unit in ("h", "m"):
        return clock
    return f"{clock}:{seconds % 60:02}" + (f".{fraction:06}".rstrip("0") if fraction else "")

"""Reference of the keyed features: plain Python loops in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.program.opcodes import NAT

LARGEST = 1e100


def histories(key: Any, time: Any) -> dict[int, list[int]]:
    """Return the rows of each key sorted by time, ties in table order. Rows with a null key or NAT are dropped."""
    found: dict[int, list[int]] = {}
    for row in sorted(range(len(key)), key=lambda row: int(time[row])):
        if key[row] >= 0 and time[row] != NAT:
            found.setdefault(int(key[row]), []).append(row)
    return found


def seen_by_events(key: Any, time: Any, include_current: bool) -> list[list[int]]:
    """Return the rows that each row sees in the same table."""
    seen: list[list[int]] = [[] for _ in key]
    for rows in histories(key, time).values():
        for i, row in enumerate(rows):
            seen[row] = rows[: i + int(include_current)]
    return seen


def seen_before(key: Any, time: Any, query_key: Any, cutoff: Any) -> list[list[int]]:
    """Return the rows that each query sees: those of its key before its cut-off."""
    rows = histories(key, time)
    return [
        [row for row in rows.get(int(k), []) if t != NAT and time[row] < t]
        for k, t in zip(query_key, cutoff, strict=True)
    ]


def within_span(seen: list[list[int]], time: Any, cutoff: Any, span: int, include_current: bool) -> list[list[int]]:
    """Return the rows seen in a window: (T - span, T] with the current event, else [T - span, T)."""
    return [
        [row for row in rows if int(t) - int(time[row]) < span + int(not include_current)]
        for rows, t in zip(seen, cutoff, strict=True)
    ]


def aggregate(values: Any, seen: list[list[int]], function: str) -> npt.NDArray[np.float64]:
    """Return an aggregate of the values that are not NaN."""
    return np.array([_aggregate([float(values[row]) for row in rows], function) for rows in seen], np.float64)


def _aggregate(values: Sequence[float], function: str) -> float:
    known = [x for x in values if x == x]
    if function == "count":
        return len(known)
    if function == "nunique":
        return len(set(known))
    if function == "sum":
        return sum(map(_limited, known))
    if not known:
        return math.nan
    if function in ("first", "last"):
        return known[0 if function == "first" else -1]
    if function in ("min", "max"):
        return min(known) if function == "min" else max(known)
    mean = sum(map(_limited, known)) / len(known)
    if function == "mean":
        return mean
    if len(known) == 1 or not math.isfinite(mean):
        return math.nan
    return math.sqrt(sum((x - mean) ** 2 for x in known) / (len(known) - 1))


def _limited(x: float) -> float:
    return x if abs(x) <= LARGEST else math.copysign(math.inf, x)


def lag(values: Any, seen: list[list[int]], k: int) -> npt.NDArray[np.float64]:
    """Return the k-th last value, null or not."""
    return np.array([float(values[rows[-k]]) if len(rows) >= k else math.nan for rows in seen], np.float64)


def decayed_sum(values: Any, time: Any, seen: list[list[int]], cutoff: Any, half_life: float) -> Any:
    """Return the sum of ``x * 2 ** (-age / half_life)``."""
    return np.array(
        [
            sum(
                _limited(float(values[row])) * max(2.0 ** (-(int(t) - int(time[row])) / half_life), 5e-324)
                for row in rows
                if values[row] == values[row]
            )
            for rows, t in zip(seen, cutoff, strict=True)
        ],
        np.float64,
    )


def sessions(time: Any, seen: list[list[int]], cutoff: Any, gap: int) -> tuple[Any, Any, Any]:
    """Return (number of sessions, events of the last session, microseconds since its start)."""
    count = []
    events = []
    age = []
    for rows, t in zip(seen, cutoff, strict=True):
        begins = [i for i, row in enumerate(rows) if i == 0 or int(time[row]) - int(time[rows[i - 1]]) > gap]
        count.append(len(begins))
        events.append(len(rows) - begins[-1] if rows else 0)
        age.append(int(t) - int(time[rows[begins[-1]]]) if rows else math.nan)
    return np.array(count, np.float64), np.array(events, np.float64), np.array(age, np.float64)


def time_since(time: Any, seen: list[list[int]], cutoff: Any, which: str, where: Any = None) -> Any:
    """Return the microseconds since the first or last counted event."""
    made = []
    for rows, t in zip(seen, cutoff, strict=True):
        counting = [row for row in rows if where is None or where[row]]
        made.append(int(t) - int(time[counting[0 if which == "first" else -1]]) if counting else math.nan)
    return np.array(made, np.float64)

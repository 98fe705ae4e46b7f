"""Tables of time zones in the parameters of a program."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_MICROSECONDS = 2**53  # which float64 holds exactly


def is_zone(table: npt.NDArray[np.float64], may_be_unknown: bool) -> bool:
    """Return whether a table is a time zone as `Opcode.LOCAL_PART` reads it, or empty if it may be unknown."""
    if not len(table):
        return may_be_unknown
    is_odd = bool(len(table) % 2 and (np.abs(table) < MOST_MICROSECONDS).all())
    return is_odd and bool((np.diff(table[: len(table) // 2]) > 0).all())


def join_zones(zones: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Return the table of several time zones as `Opcode.ZONED_PART` reads it; an empty one is unknown."""
    bounds = accumulate(map(len, zones), initial=len(zones) + 1)
    return (*map(float, bounds), *chain.from_iterable(zones))


def split_zones(table: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Return the time zones of a table of `join_zones`; none if its bounds are malformed."""
    first = table[0] if len(table) else 0.0
    if not 0 < first <= len(table):
        return []
    bounds = table[: int(first)]
    is_inside = ((bounds >= first) & (bounds <= len(table))).all()
    if not is_inside or (bounds % 1).any() or (np.diff(bounds) < 0).any() or bounds[-1] != len(table):
        return []
    return [table[start:stop] for start, stop in pairwise(bounds.astype(np.int64).tolist())]

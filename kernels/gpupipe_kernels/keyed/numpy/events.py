"""What NumPy makes of events, before any query: flags, trees and decayed sums."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.keyed.engine import KeyedEvents
from gpupipe_kernels.keyed.numpy.tree import grow, least_of, moments_of
from gpupipe_kernels.typing import Array

NOISE = 2.0**-90  # what is left of a sum of squares that is less than this share of it is rounding
LARGEST = 1e100  # a larger value counts as infinite in sums: its square might overflow, and float32 ends far below


def number_of_keys(key: Array, n_keys: int | None) -> int:
    """Return how many keys there are: `n_keys`, or one more than the largest code.

    Raises
    ------
    ValueError
        If a code is larger.
    """
    needed = int(key.max(initial=-1)) + 1
    if n_keys is not None and n_keys < needed:
        raise ValueError(f"key {needed - 1} is not one of {n_keys}")
    return needed if n_keys is None else n_keys


def first_of_keys(start: Array) -> npt.NDArray[np.bool_]:
    """Return which events are the first of their key."""
    heads = np.zeros(start[-1], bool)
    heads[start[:-1][start[:-1] < start[1:]]] = True
    return heads


def least_tree(values: Array, sign: float) -> tuple[Array, ...]:
    """Return the tree of least values of `sign` times the values, in float32: rounding keeps their order."""
    with np.errstate(over="ignore"):
        return grow((np.multiply(values, sign, out=np.empty(len(values), np.float32), casting="same_kind"),), least_of)


def moments_tree(events: KeyedEvents) -> tuple[Array, ...]:
    """Return the tree of count, sum and squared deviations; those of an infinite value are NaN."""
    values: Array = events.values
    x: Array = np.where(np.abs(values) > LARGEST, np.copysign(np.inf, values), values)
    return grow((np.ones(len(x)), x, np.where(np.isfinite(x), 0.0, np.nan)), moments_of)


def is_first(events: KeyedEvents) -> Array:
    """Return which events have a code that their key has not had before."""
    assert events.values is not None
    key = np.repeat(np.arange(len(events.start) - 1), np.diff(events.start))
    order = np.lexsort((events.values, key))
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(key[order]) != 0) | (np.diff(events.values[order]) != 0)
    made = np.zeros(len(order), bool)
    made[order] = is_new
    return made


def decayed_sums(values: Array, events: KeyedEvents, rate: float) -> Array:
    """Return the decayed sum up to each event, by doubling: after step d an event has the sum of the 2 d before it.

    After W. D. Hillis and G. L. Steele, "Data parallel algorithms", Communications of the ACM 29 (1986) 1170.
    """
    time, place = events.time.astype(np.float64), np.arange(len(values))
    begin = np.repeat(events.start[:-1], np.diff(events.start))
    sums, d = values.copy(), 1
    while d < max(len(values), 1) and (place - d >= begin).any():
        at = np.flatnonzero(place - d >= begin)
        sums[at] = sums[at] + sums[at - d] * 2.0 ** (-(time[at] - time[at - d]) * rate)
        d *= 2
    return sums

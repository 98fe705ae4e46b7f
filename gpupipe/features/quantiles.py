"""Exact quantiles without sorting: a sample says between which two values a quantile lies, one pass counts what is
below them and collects what is between, and few values are left to choose from.

After R. W. Floyd and R. L. Rivest, "Expected time bounds for selection", CACM 18 (1975) 165.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gpupipe_kernels.hashing import mix
from gpupipe_kernels.reduce.engines import LANES, Engine

Array = Any

FEW_ROWS = 8_192  # partitioned as they are
MOST_BRACKETS = 8  # with more quantiles, one partition by all of them is quicker
MOST_SAMPLED = 16_384
DEVIATIONS = 3.0  # of a rank in the sample: one bracket in some hundreds misses, and its column is partitioned


@dataclass(frozen=True)
class Inside:
    """What some rows have in a bracket.

    Attributes
    ----------
    n_below : int
        Values below it.
    values : array
        Those inside.
    """

    n_below: int
    values: Array

    def holds(self, ranks: tuple[int, int]) -> bool:
        """Return whether the values of two ranks, the lesser first, are among them."""
        return self.n_below <= ranks[0] and ranks[1] < self.n_below + len(self.values)

    def within(self, ranks: tuple[int, int]) -> tuple[int, int]:
        """Return the ranks among the values inside."""
        return ranks[0] - self.n_below, ranks[1] - self.n_below


def joined(parts: Sequence[Inside]) -> Inside:
    """Return what several parts of the rows have in a bracket."""
    return Inside(sum(part.n_below for part in parts), np.concatenate([part.values for part in parts]))


def brackets(x: Array, shares: Sequence[float]) -> Array:
    """Return for each share two values between which that quantile of `x` very probably lies, shape (k, 2).

    Nulls of `x` do not count. There are no brackets where it would not pay to look for them.
    """
    if len(x) <= FEW_ROWS or len(shares) > MOST_BRACKETS:
        return np.empty((0, 2), x.dtype)
    sample = x[sample_rows(len(x))]
    sample = sample[~np.isnan(sample)]
    return np.array([_bracket(sample, share) for share in shares], x.dtype).reshape(-1, 2)


def _bracket(sample: Array, share: float) -> tuple[float, float]:
    """Return the values of `sample` that lie some deviations of a rank around a quantile; inf beyond its ends."""
    n = len(sample)
    if n == 0:
        return -math.inf, math.inf
    rank, margin = share * (n - 1), DEVIATIONS * math.sqrt(n * share * (1 - share)) + 1
    low, high = math.floor(rank - margin), math.ceil(rank + margin)
    sample.partition(sorted({max(low, 0), min(high, n - 1)}))
    return float(sample[low]) if low >= 0 else -math.inf, float(sample[high]) if high < n else math.inf


def sample_rows(n: int) -> Array:
    """Return about n**(2/3) of `n` rows, ascending: one of each stretch of rows, by a hash, as no pattern has it."""
    size = min(MOST_SAMPLED, 2 ** round(math.log2(n) * 2 / 3))
    return (_places(size) * (n / size)).astype(np.intp)


@lru_cache(maxsize=16)
def _places(size: int) -> Array:
    """Return a number in each of 0..1, 1..2, ... size - 1..size; the largest stays below `size` times anything."""
    return np.arange(size) + mix(np.arange(size, dtype=np.uint32)) / 2**32 * 0.999


def quantiles(x: Array, n_null: int, shares: Sequence[float], found: Sequence[Inside], engine: Engine) -> list[float]:
    """Return the quantiles of `x`, linearly interpolated; 0 if all is null.

    Parameters
    ----------
    x : array of float32 or float64, shape (n,)
    n_null : int
        How many of them are NaN.
    shares : sequence of float
        In 0..1.
    found : sequence of Inside
        What lies in the bracket of each share; empty if there are no brackets.
    """
    n = len(x) - n_null
    if n == 0 or not shares:
        return [0.0 for _ in shares]
    ranks = [share * (n - 1) for share in shares]
    pairs = [(int(rank), min(int(rank) + 1, n - 1)) for rank in ranks]
    if found and all(inside.holds(pair) for inside, pair in zip(found, pairs, strict=True)):
        ends = [_ranked(inside.values, inside.within(pair), engine) for inside, pair in zip(found, pairs, strict=True)]
    else:
        known = x[~np.isnan(x)]
        known.partition(sorted({at for pair in pairs for at in pair}))
        ends = [(float(known[low]), float(known[high])) for low, high in pairs]
    return [_between(*pair, rank % 1) for pair, rank in zip(ends, ranks, strict=True)]


def _ranked(values: Array, ranks: tuple[int, int], engine: Engine) -> tuple[float, float]:
    """Return the values of two neighbouring ranks of an array without NaN."""
    if len(values) > FEW_ROWS:
        around = brackets(values, [ranks[0] / (len(values) - 1)])
        out, found = np.empty((1, len(values)), values.dtype), np.zeros((1, 2), np.int64)
        engine.sweep(values, 0.0, np.zeros((2, LANES)), around, out, found)
        inside = Inside(int(found[0, 0]), out[0, : found[0, 1]])
        if inside.holds(ranks):
            low, high = around[0].tolist()
            if low == high:
                return low, high
            if len(inside.values) < len(values):
                return _ranked(inside.values, inside.within(ranks), engine)
    ordered = np.partition(values, ranks)
    return float(ordered[ranks[0]]), float(ordered[ranks[1]])


def _between(a: float, b: float, share: float) -> float:
    # 0.0 makes the zero of either sign the same one.
    return (a if share == 0.0 else a + share * (b - a)) + 0.0

"""Exact quantiles without sorting: a sample says between which two values a quantile lies, one pass counts what is
below them and collects what is between, and few values are left to choose from.

After R. W. Floyd and R. L. Rivest, "Expected time bounds for selection", CACM 18 (1975) 165.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gpupipe.typing import Array
from gpupipe_kernels.formulas.hashing import mix
from gpupipe_kernels.reduce.engine import LANES, ReductionEngine

Ranks = tuple[int, int]  # two places in the order of the values from 0 on, the lesser first

FEW_VALUES = 16_384  # partitioned as they are
MOST_BRACKETS = 8  # with more quantiles, one partition by all of them is quicker
MOST_SAMPLED = 16_384
DEVIATIONS = 3.0  # of a rank in the sample: one bracket in some hundreds misses, and its column is partitioned


@dataclass(frozen=True)
class Inside:
    """What some rows have in a bracket.

    Attributes
    ----------
    low, high : float
        The bracket.
    n_below, n : int
        Values below it; values inside.
    values : array, shape (n,)
        Those inside; none where they are all alike, as low is high, or where they were too many to be sent.
    """

    low: float
    high: float
    n_below: int
    n: int
    values: Array

    def holds(self, ranks: Ranks) -> bool:
        """Return whether the values of two ranks are inside, and known."""
        is_known = self.low == self.high or len(self.values) == self.n
        return is_known and self.n_below <= ranks[0] and ranks[1] < self.n_below + self.n


def insides(given: Array, out: Array, found: Array) -> list[Inside]:
    """Return what `ReductionEngine.sweep` has found in the brackets that it was given."""
    return [
        Inside(low, high, n_below, n, values[: n if low < high else 0].copy())
        for (low, high), (n_below, n), values in zip(given.tolist(), found.tolist(), out, strict=True)
    ]


def joined(parts: Sequence[Inside]) -> Inside:
    """Return what several parts of the rows have in the same bracket."""
    values = np.concatenate([part.values for part in parts])
    n_below, n = sum(part.n_below for part in parts), sum(part.n for part in parts)
    return Inside(parts[0].low, parts[0].high, n_below, n, values)


def brackets(x: Array, shares: Sequence[float], engine: ReductionEngine) -> Array:
    """Return for each share two values between which that quantile of `x` very probably lies, shape (k, 2).

    Nulls of `x` do not count. There are no brackets where it would not pay to look for them.
    """
    return bracketed(x[sampled(len(x))] if pays(len(x), shares) else x[:0], shares, engine, len(x))


def pays(n_rows: int, shares: Sequence[float]) -> bool:
    """Return whether brackets are quicker than a partition of all rows by all quantiles."""
    return n_rows > FEW_VALUES and len(shares) <= MOST_BRACKETS


def bracketed(sample: Array, shares: Sequence[float], engine: ReductionEngine, n_rows: int) -> Array:
    """Return the `brackets` of a column of so many rows, of which those of `sampled` are known."""
    if not pays(n_rows, shares):
        return np.empty((0, 2), sample.dtype)
    sample = sample[~np.isnan(sample)]
    return np.array([_bracket(sample, share, share, engine) for share in shares], sample.dtype).reshape(-1, 2)


def quantiles(
    x: Array, n_null: int, shares: Sequence[float], found: Sequence[Inside], engine: ReductionEngine
) -> list[float]:
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

    def partitioned(ranks: list[int]) -> dict[int, float]:
        known = x[~np.isnan(x)]
        known.partition(ranks)
        return {rank: float(known[rank]) for rank in ranks}

    return selected(len(x) - n_null, shares, found, engine, partitioned)


def selected(
    n: int,
    shares: Sequence[float],
    found: Sequence[Inside],
    engine: ReductionEngine,
    otherwise: Callable[[list[int]], Mapping[int, float]],
) -> list[float]:
    """Return the quantiles of `n` values, linearly interpolated; 0 of none.

    Parameters
    ----------
    found : sequence of Inside
        As in `quantiles`.
    otherwise : callable
        Returns the values of some ranks, in ascending order, where `found` does not hold all that are wanted.
    """
    if n == 0 or not shares:
        return [0.0 for _ in shares]
    at, pairs = places(n, shares)
    if found and all(inside.holds(ranks) for inside, ranks in zip(found, pairs, strict=True)):
        ends = [_chosen(inside, ranks, engine) for inside, ranks in zip(found, pairs, strict=True)]
    else:
        known = otherwise(sorted({rank for ranks in pairs for rank in ranks}))
        ends = [(known[low], known[high]) for low, high in pairs]
    return interpolated(ends, at)


def places(n: int, shares: Sequence[float]) -> tuple[list[float], list[Ranks]]:
    """Return where in the order of `n` values each quantile lies, and the ranks before and behind it."""
    at = [share * (n - 1) for share in shares]
    return at, [(int(rank), min(int(rank) + 1, n - 1)) for rank in at]


def interpolated(ends: Sequence[tuple[float, float]], at: Sequence[float]) -> list[float]:
    """Return the quantiles by the values of the ranks around them, and `at` of `places`."""
    return [_between(*values, rank % 1) for values, rank in zip(ends, at, strict=True)]


def _chosen(inside: Inside, ranks: Ranks, engine: ReductionEngine) -> tuple[float, float]:
    """Return the values of two ranks, which `inside` holds."""
    if inside.low == inside.high:
        return inside.low, inside.high
    return ranked(inside.values, (ranks[0] - inside.n_below, ranks[1] - inside.n_below), engine)


def ranked(values: Array, ranks: Ranks, engine: ReductionEngine) -> tuple[float, float]:
    """Return the values of two ranks of an array without NaN."""
    n = len(values)
    if n > FEW_VALUES:
        low, high = ranks[0] / (n - 1), ranks[1] / (n - 1)
        given = np.array([_bracket(values[sampled(n)], low, high, engine)], values.dtype)
        out, found = np.empty((1, n), values.dtype), np.zeros((1, 2), np.int64)
        engine.sweep(values, 0.0, np.empty((0, LANES)), given, out, found)
        (inside,) = insides(given, out, found)
        if inside.n < n and inside.holds(ranks):
            return _chosen(inside, ranks, engine)
    ordered = np.partition(values, ranks)
    return float(ordered[ranks[0]]), float(ordered[ranks[1]])


def _bracket(sample: Array, low: float, high: float, engine: ReductionEngine) -> tuple[float, float]:
    """Return the values of `sample` some deviations of a rank before one share and behind another; inf off its ends."""
    n = len(sample)
    if n == 0:
        return -math.inf, math.inf
    first = math.floor(low * (n - 1) - DEVIATIONS * math.sqrt(n * low * (1 - low)) - 1)
    last = math.ceil(high * (n - 1) + DEVIATIONS * math.sqrt(n * high * (1 - high)) + 1)
    ends = ranked(sample, (max(first, 0), min(last, n - 1)), engine)
    return ends[0] if first >= 0 else -math.inf, ends[1] if last < n else math.inf


def sampled(n: int) -> Array:
    """Return the numbers of about n**(2/3) of n rows: one of each stretch, by a hash, as no pattern has it."""
    return _sampled(n, min(MOST_SAMPLED, 2 ** round(math.log2(n) * 2 / 3)))


@lru_cache(maxsize=4)
def _sampled(n: int, size: int) -> Array:
    share = mix(np.arange(size, dtype=np.uint32)) / 2**32 * 0.999  # the last row stays before n
    return ((np.arange(size) + share) * (n / size)).astype(np.intp)


def _between(a: float, b: float, share: float) -> float:
    # 0.0 makes the zero of either sign the same one.
    return (a if share == 0.0 else a + share * (b - a)) + 0.0

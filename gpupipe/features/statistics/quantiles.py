"""Exact quantiles without sorting.

A sample brackets each quantile between two values; one pass counts the values below the bracket and collects those
inside; the quantile is selected from the collected values.

After R. W. Floyd and R. L. Rivest, "Expected time bounds for selection", CACM 18 (1975) 165.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np

from gpupipe.backends.weighted_quantiles import interpolate
from gpupipe.typing import Array
from gpupipe_kernels.formulas.hashes import mix
from gpupipe_kernels.reduce.engine import LANES, ReductionEngine

Ranks = tuple[int, int]  # two ranks from 0, ascending

FEW_VALUES = 16_384  # fewer values are partitioned directly
MOST_BRACKETS = 8  # with more quantiles, a single partition is faster
MOST_SAMPLED = 16_384
DEVIATIONS = 3.0  # of a rank in the sample; if a bracket misses (1 in some hundreds), its column is partitioned


@dataclass(frozen=True)
class Bracket:
    """An interval of values, and the number of values below and inside it.

    The limits are inclusive. `n` is the number of values inside. `values` are these, shape (n,); empty if
    ``low == high``, or if they are too many to transfer.
    """

    low: float
    high: float
    n_below: int
    n: int
    values: Array

    def holds(self, ranks: Ranks) -> bool:
        """Return whether the values of both ranks are inside and available."""
        is_known = self.low == self.high or len(self.values) == self.n
        return is_known and self.n_below <= ranks[0] and ranks[1] < self.n_below + self.n


def read_brackets(given: Array, out: Array, found: Array) -> list[Bracket]:
    """Return the brackets filled by `ReductionEngine.sweep`, for the limits `given`."""
    return [
        Bracket(low, high, n_below, n, values[: n if low < high else 0].copy())
        for (low, high), (n_below, n), values in zip(given.tolist(), found.tolist(), out, strict=True)
    ]


def merge_brackets(parts: Sequence[Bracket]) -> Bracket:
    """Merge the same bracket of several row blocks."""
    values = np.concatenate([part.values for part in parts])
    n_below, n = sum(part.n_below for part in parts), sum(part.n for part in parts)
    return Bracket(parts[0].low, parts[0].high, n_below, n, values)


def find_brackets(x: Array, shares: Sequence[float], engine: ReductionEngine) -> Array:
    """Return two limits for each share that very probably enclose that quantile of `x`, shape (k, 2).

    NaN is ignored. The result is empty if a partition of all rows is faster.
    """
    sample = x[sample_rows(len(x))] if is_bracketing_faster(len(x), shares) else x[:0]
    return find_brackets_in_sample(sample, shares, engine, len(x))


def is_bracketing_faster(n_rows: int, shares: Sequence[float]) -> bool:
    """Return whether brackets are faster than a partition of all rows by all quantiles."""
    return n_rows > FEW_VALUES and len(shares) <= MOST_BRACKETS


def find_brackets_in_sample(sample: Array, shares: Sequence[float], engine: ReductionEngine, n_rows: int) -> Array:
    """Return the limits of `find_brackets` for a column of `n_rows` rows, given the rows from `sample_rows`."""
    if not is_bracketing_faster(n_rows, shares):
        return np.empty((0, 2), sample.dtype)
    sample = sample[~np.isnan(sample)]
    return np.array([_bracket(sample, share, share, engine) for share in shares], sample.dtype).reshape(-1, 2)


def compute_quantiles(
    x: Array, n_null: int, shares: Sequence[float], found: Sequence[Bracket], engine: ReductionEngine
) -> list[float]:
    """Return the quantiles of `x`, linearly interpolated; 0 if all values are null.

    `x`: float32 or float64, shape (n,), with `n_null` NaN. `shares` are in [0, 1]. `found` has the bracket of each
    share; empty if there are no brackets.
    """

    def partitioned(ranks: list[int]) -> dict[int, float]:
        known = x[~np.isnan(x)]
        known.partition(ranks)
        return {rank: float(known[rank]) for rank in ranks}

    return select_quantiles(len(x) - n_null, shares, found, engine, partitioned)


def select_quantiles(
    n: int,
    shares: Sequence[float],
    found: Sequence[Bracket],
    engine: ReductionEngine,
    otherwise: Callable[[list[int]], Mapping[int, float]],
) -> list[float]:
    """Return the quantiles of `n` values, linearly interpolated; 0 if there are none.

    `found` is as in `compute_quantiles`. `otherwise` is called with ascending ranks if the brackets do not contain all
    of them; it returns their values.
    """
    if n == 0 or not shares:
        return [0.0 for _ in shares]
    at, pairs = quantile_positions(n, shares)
    if found and all(inside.holds(ranks) for inside, ranks in zip(found, pairs, strict=True)):
        ends = [_chosen(inside, ranks, engine) for inside, ranks in zip(found, pairs, strict=True)]
    else:
        known = otherwise(sorted(set(chain.from_iterable(pairs))))
        ends = [(known[low], known[high]) for low, high in pairs]
    return interpolate_all(ends, at)


def quantile_positions(n: int, shares: Sequence[float]) -> tuple[list[float], list[Ranks]]:
    """Return the position of each quantile among `n` sorted values, and the ranks before and after it."""
    at = [share * (n - 1) for share in shares]
    return at, [(int(rank), min(int(rank) + 1, n - 1)) for rank in at]


def interpolate_all(ends: Sequence[tuple[float, float]], at: Sequence[float]) -> list[float]:
    """Interpolate between the values of the ranks around the positions `at`."""
    return [interpolate(*values, rank % 1) for values, rank in zip(ends, at, strict=True)]


def _chosen(inside: Bracket, ranks: Ranks, engine: ReductionEngine) -> tuple[float, float]:
    """Return the values of two ranks that are in the bracket `inside`."""
    if inside.low == inside.high:
        return inside.low, inside.high
    return values_at_ranks(inside.values, (ranks[0] - inside.n_below, ranks[1] - inside.n_below), engine)


def values_at_ranks(values: Array, ranks: Ranks, engine: ReductionEngine) -> tuple[float, float]:
    """Return the values of two ranks of an array without NaN."""
    n = len(values)
    if n > FEW_VALUES:
        low, high = ranks[0] / (n - 1), ranks[1] / (n - 1)
        given = np.array([_bracket(values[sample_rows(n)], low, high, engine)], values.dtype)
        out, found = np.empty((1, n), values.dtype), np.zeros((1, 2), np.int64)
        engine.sweep(values, 0.0, np.empty((0, LANES)), given, out, found)
        (inside,) = read_brackets(given, out, found)
        if inside.n < n and inside.holds(ranks):
            return _chosen(inside, ranks, engine)
    ordered = np.partition(values, ranks)
    return float(ordered[ranks[0]]), float(ordered[ranks[1]])


def _bracket(sample: Array, low: float, high: float, engine: ReductionEngine) -> tuple[float, float]:
    """Return sample values `DEVIATIONS` below the rank of `low` and above that of `high`; infinite past the ends."""
    n = len(sample)
    if n == 0:
        return -math.inf, math.inf
    first = math.floor(low * (n - 1) - DEVIATIONS * math.sqrt(n * low * (1 - low)) - 1)
    last = math.ceil(high * (n - 1) + DEVIATIONS * math.sqrt(n * high * (1 - high)) + 1)
    ends = values_at_ranks(sample, (max(first, 0), min(last, n - 1)), engine)
    return ends[0] if first >= 0 else -math.inf, ends[1] if last < n else math.inf


def sample_rows(n: int) -> Array:
    """Return about n**(2/3) of n row numbers, one from each interval, chosen by a hash to be robust to patterns."""
    return _sampled(n, min(MOST_SAMPLED, 2 ** round(math.log2(n) * 2 / 3)))


@lru_cache(maxsize=4)
def _sampled(n: int, size: int) -> Array:
    share = mix(np.arange(size, dtype=np.uint32)) / 2**32 * 0.999  # the last row stays before n
    return ((np.arange(size) + share) * (n / size)).astype(np.intp)

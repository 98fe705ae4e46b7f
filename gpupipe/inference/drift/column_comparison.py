"""Statistics of two samples in the same cells: effect sizes, and significance for their sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpupipe.typing import Array

LEAST_EXPECTED = 5.0  # rows of the smaller sample in a cell of the chi-squared test (Cochran, Biometrics 10, 1954)
SMALLEST_SHARE = 1e-4  # of a cell in the PSI, so that an empty cell does not count more, the larger the table
HALF_ROW = 0.5  # added to each cell in the PSI


@dataclass(frozen=True)
class CellTest:
    """Difference of two samples over some cells.

    `psi` is the population stability index less its expected value without drift, at least 0; `p_value` is the
    probability of a difference as large without drift.
    """

    psi: float
    p_value: float


UNCHANGED = CellTest(0.0, 1.0)


def compare_cells(reference: Array, current: Array, is_ordered: bool) -> CellTest:
    """Return the test of two samples of a column, after merging cells that are too small for it.

    The test is Pearson's chi-squared test of homogeneity. Without drift, the PSI times n m / (n + m) has the same
    asymptotic distribution (Yurdakul and Naranjo, "Statistical properties of the population stability index", Journal
    of Risk Model Validation 14(4), 2020), and so the expected value (B - 1) (1/n + 1/m) for B cells.

    `reference` and `current` are rows per cell, int64, shape (n_cells,). If `is_ordered`, the cells after the first are
    in the order of the values, and neighbours are merged.
    """
    n, m = int(reference.sum()), int(current.sum())
    if not n or not m:
        return UNCHANGED
    a, b = merge_cells(reference, current, is_ordered)
    if len(a) < 2:
        return UNCHANGED
    statistic = float((np.square(np.sqrt(m / n) * a - np.sqrt(n / m) * b) / (a + b)).sum())
    return CellTest(excess_psi(a, b), chi_squared_tail(statistic, len(a) - 1))


def compare_shares(k_reference: int, n: int, k_current: int, m: int) -> CellTest:
    """Return the test of a share: `k_reference` of `n` rows, and `k_current` of `m`.

    The probability is that of Fisher's exact test, both tails doubled, if few rows are expected; else that of the
    chi-squared test.
    """
    if not n or not m or k_reference + k_current in (0, n + m):
        return UNCHANGED
    a, b = np.array([k_reference, n - k_reference]), np.array([k_current, m - k_current])
    if (a + b).min() * min(n, m) / (n + m) >= LEAST_EXPECTED:
        return compare_cells(a, b, is_ordered=False)
    small, other = ((a, b), (b, a))[n > m]
    return CellTest(excess_psi(a, b), _fisher(int(small[0]), int(small.sum()), int(other[0]), int(other.sum())))


def _fisher(k: int, n: int, others: int, m: int) -> float:
    """Return twice the smaller tail of the hypergeometric distribution of `k` of `n` rows, given `k` + `others`."""
    marked, total = k + others, n + m
    each = range(max(0, n - (total - marked)), min(n, marked) + 1)
    logs = log_choose(marked, each) + log_choose(total - marked, [n - chosen for chosen in each])
    shares = np.exp(logs - log_choose(total, [n]))
    at = k - each[0]
    return float(min(1.0, 2.0 * min(shares[: at + 1].sum(), shares[at:].sum())))


def merge_cells(reference: Array, current: Array, is_ordered: bool) -> tuple[Array, Array]:
    """Return the two samples with cells merged until the smaller sample is expected to have 5 rows in each.

    Ordered cells are merged with the next ones, other cells with each other. The first cell, of nulls, joins them if it
    is small.
    """
    both = np.stack([reference, current]).astype(np.float64)
    sums = both.sum(axis=1)
    expected = both.sum(axis=0) * sums.min() / sums.sum()
    is_small = expected < LEAST_EXPECTED
    if is_ordered:
        group, held = np.zeros(len(expected), np.int64), 0.0
        first = 1 if not is_small[0] else 0
        at = first
        for i in range(first, len(expected)):
            group[i] = at
            held += expected[i]
            if held >= LEAST_EXPECTED:
                at, held = at + 1, 0.0
        if held < LEAST_EXPECTED and at > 0:  # the cells after the last complete one join it
            group[group == at] = at - 1
    else:
        group = np.where(is_small, 0, 1 + np.cumsum(~is_small))
        if is_small.any() and expected[is_small].sum() < LEAST_EXPECTED and not is_small.all():
            group[is_small] = group[int(np.argmin(np.where(is_small, np.inf, expected)))]
    kept = np.unique(group, return_inverse=True)[1]
    merged = np.zeros((2, int(kept.max()) + 1))
    for row, counts in zip(merged, both, strict=True):
        np.add.at(row, kept, counts)
    return merged[0], merged[1]


def excess_psi(a: Array, b: Array) -> float:
    """Return the PSI of two samples less its expected value without drift, at least 0."""
    n, m = float(a.sum()), float(b.sum())
    p, q = (
        np.maximum((counts + HALF_ROW) / (counts.sum() + HALF_ROW * len(counts)), SMALLEST_SHARE) for counts in (a, b)
    )
    psi = float(((q - p) * np.log(q / p)).sum())
    return max(0.0, psi - (len(a) - 1) * (1 / n + 1 / m))


def jensen_shannon_distance(a: Array, b: Array) -> float:
    """Return the Jensen-Shannon distance of two samples in cells, in [0, 1] (base 2)."""
    p, q = a / max(1, a.sum()), b / max(1, b.sum())
    middle = (p + q) / 2

    def divergence(share: Array) -> float:
        known = share > 0
        return float((share[known] * np.log2(share[known] / middle[known])).sum())

    return float(np.sqrt(max(0.0, (divergence(p) + divergence(q)) / 2)))


def wasserstein_distance(edges: Array, a: Array, b: Array) -> float | None:
    """Return the Wasserstein-1 distance of two samples in bins, in standard deviations of the first.

    Values are taken as uniform within their bin, and those outside the training range as at its ends. None if a sample
    has no values or the first has no spread.

    `edges` has shape (k,). `a` and `b`, int64, shape (k + 1,), are rows below the first edge, between edges, and above
    the last.
    """
    if len(edges) < 2 or not a.sum() or not b.sum():
        return None
    x = edges.astype(np.float64)
    width, middle = np.diff(x), (x[1:] + x[:-1]) / 2
    p = a[1:-1] / max(1, a[1:-1].sum())
    mean = float(p @ middle)
    deviation = float(np.sqrt(max(0.0, p @ (np.square(middle - mean) + np.square(width) / 12))))
    if not deviation > 0:
        return None
    gap = np.cumsum(b)[:-1] / b.sum() - np.cumsum(a)[:-1] / a.sum()  # at each edge
    left, right = gap[:-1], gap[1:]
    crosses = left * right < 0
    size = np.abs(left) + np.abs(right)
    area = np.where(crosses, (left * left + right * right) / (2 * np.where(size > 0, size, 1)), size / 2)
    return float(width @ area) / deviation


def holm(p_values: Array) -> Array:
    """Return p-values adjusted for their number, shape (n,).

    After Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p_values[order] * factors))
    return adjusted


# The tail and the binomial coefficients are our own since a server image has no SciPy (143 MB), and the verdict must be
# the same with and without it. The tests compare them with SciPy 1.17.
def chi_squared_tail(statistic: float, freedom: int) -> float:
    """Return the probability that a chi-squared variable exceeds `statistic`.

    For a whole number of degrees of freedom, at least 1, and a statistic of at least 0, it is a finite sum of positive
    terms (NIST Digital Library of Mathematical Functions, 8.4.6 and 8.8.6).

    Examples
    --------
    >>> round(chi_squared_tail(3.841, 1), 4), round(chi_squared_tail(9.21, 2), 4)
    (0.05, 0.01)
    """
    half = statistic / 2
    if half <= 0:
        return 1.0
    tail = math.erfc(math.sqrt(half)) if freedom % 2 else 0.0
    for i in range(freedom // 2):
        shape = i + 0.5 * (freedom % 2)
        tail += math.exp(shape * math.log(half) - half - math.lgamma(shape + 1))
    return min(1.0, tail)


def log_choose(n: int, k: Sequence[int]) -> Array:
    """Return the logarithm of the number of ways to choose each of `k` of `n` things, float64, shape (len(k),)."""
    of_n = math.lgamma(n + 1)
    return np.array([of_n - math.lgamma(each + 1) - math.lgamma(n - each + 1) for each in k])

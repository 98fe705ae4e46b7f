"""Sums as pairs of float64, a value and its rounding error: about 31 digits together.

So the sum over a window is the difference of two running sums, and a variance is what is left of a sum of squares,
without loss. After M. Joldes, J.-M. Muller and V. Popescu, "Tight and rigorous error bounds for basic building blocks
of double-word arithmetic", ACM Transactions on Mathematical Software 44 (2017), article 15; the product is that of
T. J. Dekker, "A floating-point technique for extending the available precision", Numerische Mathematik 18 (1971) 224. A
device that fuses multiplications and additions does no harm to either: what it would not round is exact already.
"""

from __future__ import annotations

import math
from typing import Any

from gpupipe_kernels.keyed.numpy.events import LARGEST
from gpupipe_kernels.launch import array_formula, formula
from gpupipe_kernels.typing import Array

SPLIT = 134_217_729.0  # 2 ** 27 + 1 cuts the 53 bits of a float64 into two halves whose products are exact


@formula
def add(hi: float, lo: float, more: float, more_lo: float) -> Any:
    """Return the sum of two pairs as a pair."""
    s = hi + more
    back = s - hi
    s_lo = (hi - (s - back)) + (more - back)
    t = lo + more_lo
    back = t - lo
    t_lo = (lo - (t - back)) + (more_lo - back)
    c = s_lo + t
    v = s + c
    w = t_lo + (c - (v - s))
    z = v + w
    return z, w - (z - v)


@formula
def add_one(hi: float, lo: float, x: float) -> Any:
    """Return the sum of a pair and a number as a pair: half of the work."""
    s = hi + x
    back = s - hi
    v = lo + ((hi - (s - back)) + (x - back))
    z = s + v
    return z, v - (z - s)


@formula
def product(x: float, y: float) -> Any:
    """Return the product of two numbers as a pair, without rounding."""
    p = x * y
    cut = SPLIT * x
    x_hi = cut - (cut - x)
    x_lo = x - x_hi
    cut = SPLIT * y
    y_hi = cut - (cut - y)
    y_lo = y - y_hi
    return p, ((x_hi * y_hi - p) + x_hi * y_lo + x_lo * y_hi) + x_lo * y_lo


@formula
def term(x: float, squared: bool) -> Any:
    """Return what a value adds to a sum, or to a sum of squares, as a pair; infinities are counted elsewhere."""
    if not -LARGEST <= x <= LARGEST:
        return 0.0, 0.0
    if squared:
        return product(x, x)
    return x, 0.0


@formula
def advance(share: float, hi: float, lo: float, x: float, x_lo: float) -> Any:
    """Return the recurrence ``S = share * S + x`` one step on: plain sums (shares of 0 and 1) keep all their digits."""
    if x_lo == 0.0:
        return add_one(share * hi, share * lo, x)
    return add(share * hi, share * lo, x, x_lo)


@array_formula
def term_at(i: Any, values: Array, squared: bool) -> Any:
    """Return what event `i` adds; without values every event adds 1."""
    return term(values[i] if values.size else 1.0, squared)


@array_formula
def in_range(hi: Array, lo: Array, head: Array, low: Any, high: Any) -> Any:
    """Return the sum over ``low:high`` as a pair, from the running sums of a key."""
    if head[low]:
        return hi[high - 1], lo[high - 1]
    return add(hi[high - 1], lo[high - 1], -hi[low - 1], -lo[low - 1])


@formula
def deviation(n: float, s: float, s_lo: float, q: float, q_lo: float, noise: float) -> float:
    """Return the standard deviation of a sample from its sum and its sum of squares; `noise` is the error of these."""
    all_squares, all_squares_lo = product(q, n)
    square, square_lo = product(s, s)
    rest, _ = add(all_squares, all_squares_lo + q_lo * n, -square, -(square_lo + 2.0 * s * s_lo))
    if rest <= noise * n:
        return 0.0
    return math.sqrt(rest / (n * (n - 1.0)))

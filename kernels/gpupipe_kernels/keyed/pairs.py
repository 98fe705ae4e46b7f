"""Double-word arithmetic: sums as pairs of float64, a value and its rounding error, with about 31 digits.

With pairs, differences of running sums give window sums, and differences of sums of squares give variances, without
loss of precision. After M. Joldes, J.-M. Muller and V. Popescu, "Tight and rigorous error bounds for basic building
blocks of double-word arithmetic", ACM Transactions on Mathematical Software 44 (2017), article 15.

Compilers for a device fuse a product with the addition that follows it. That only affects sums of products that are
rounded: those with a share other than 0 and 1, which lose a rounding error of the product either way. A product as a
pair is fused explicitly, because the parts of T. J. Dekker's (Numerische Mathematik 18 (1971) 224) depend on roundings
that a compiler may remove.
"""

from __future__ import annotations

import math

from gpupipe_kernels.keyed.numpy.events import LARGEST
from gpupipe_kernels.launch import array_formula, fma, formula


@formula
def add(hi, lo, more, more_lo):
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
def add_one(hi, lo, x):
    """Return the sum of a pair and a number as a pair, with half of the work."""
    s = hi + x
    back = s - hi
    v = lo + ((hi - (s - back)) + (x - back))
    z = s + v
    return z, v - (z - s)


@formula
def product(x, y):
    """Return the product of two numbers as a pair, without rounding."""
    p = x * y
    return p, fma(x, y, -p)


@formula
def term(x, squared):
    """Return the contribution of a value to a sum, or a sum of squares, as a pair; 0 for infinities."""
    if not -LARGEST <= x <= LARGEST:
        return 0.0, 0.0
    if squared:
        return product(x, x)
    return x, 0.0


@formula
def advance(share, hi, lo, x, x_lo):
    """Return one step of the recurrence ``S = share * S + x``; exact products for shares of 0 and 1 (plain sums)."""
    if x_lo == 0.0:
        return add_one(share * hi, share * lo, x)
    return add(share * hi, share * lo, x, x_lo)


@array_formula
def term_at(i, values, squared):
    """Return the contribution of event `i`; 1 if there are no values."""
    return term(values[i] if values.size else 1.0, squared)


@array_formula
def in_range(hi, lo, head, low, high):
    """Return the sum over ``low:high`` as a pair, from the running sums of a key."""
    if head[low]:
        return hi[high - 1], lo[high - 1]
    return add(hi[high - 1], lo[high - 1], -hi[low - 1], -lo[low - 1])


@formula
def deviation(n, s, s_lo, q, q_lo, noise):
    """Return the sample standard deviation from the sum and the sum of squares; `noise` is their error."""
    all_squares, all_squares_lo = product(q, n)
    square, square_lo = product(s, s)
    rest, _ = add(all_squares, all_squares_lo + q_lo * n, -square, -(square_lo + 2.0 * s * s_lo))
    if rest <= noise * n:
        return 0.0
    return math.sqrt(rest / (n * (n - 1.0)))

"""The exponential minus 1, and the power transformation based on it, in float32."""

from __future__ import annotations

from numpy import float32, int32

from gpupipe_kernels.formulas.logarithm import INF, LN2_HIGH, LN2_LOW, log1p
from gpupipe_kernels.launch import formula

ROUND = float32(12_582_912.0)  # 1.5 * 2**23: adding and then subtracting it rounds to a whole number
PER_LN2 = float32(1.44269504)
LARGEST = float32(88.72283)  # the last float32 whose exponential does not overflow


@formula
def expm1(x):
    """Return exp(x) - 1 (relative error 2e-7); -1 at -inf, inf where that overflows."""
    v = x if x > float32(-104.0) else float32(-104.0)
    v = v if v < float32(89.0) else float32(89.0)
    n = float32(float32(v * PER_LN2 + ROUND) - ROUND)
    r = (v - n * LN2_HIGH) - n * LN2_LOW
    p = float32(0.0083665205) + r * float32(0.0013882521)
    p = r + r * r * (float32(0.49999997) + r * (float32(0.16666543) + r * (float32(0.0416672) + r * p)))
    # 2**n as two factors: at the upper end it overflows although the result does not.
    k = int32(n)
    half = int32(k >> int32(1))
    low = int32(int32(half + int32(127)) << int32(23)).view(float32)
    high = int32(int32(int32(k - half) + int32(127)) << int32(23)).view(float32)
    y = p if k == int32(0) else (p * low) * high + (low * high - float32(1.0))
    if n > float32(64.0):
        y = ((p + float32(1.0)) * low) * high
    if x > LARGEST:
        y = INF
    return y if x == x else x


@formula
def yeo_johnson(x, exponent):
    """Return the power transformation of `x`: see `gpupipe_kernels.reference.yeo_johnson`.

    The error of the logarithm is multiplied by the argument of the exponential: the relative error is up to 1e-7 times
    that argument, and at most 1e-5 anywhere. Exponent 1 is the identity, up to the largest float32, whose logarithm
    rounds to one that overflows.
    """
    up = x >= float32(0.0)
    power = exponent if up else float32(2.0) - exponent
    logarithm = log1p(abs(x))
    y = expm1(power * logarithm) / power
    if power == float32(0.0):
        y = logarithm
    if power == float32(1.0):
        y = abs(x)
    y = y if up else -y
    return y if x == x else x

"""The logarithm of 1 + x in float32, without a library call, so that both compilers vectorise loops over it."""

from __future__ import annotations

from numpy import float32, int32

from gpupipe_kernels.launch import formula

LN2_HIGH = float32(6.9313812256e-01)  # its last bits are 0, so that a multiple of it is exact
LN2_LOW = float32(9.0580006145e-06)
SQRT_HALF_BITS = int32(0x3F3504F3)
ONE_BITS = int32(0x3F800000)
MANTISSA = int32(0x007FFFFF)
INF = float32(float("inf"))
NAN = float32(float("nan"))


@formula
def log1p(x):
    """Return log(1 + x) (relative error 1e-7); NaN below -1, -inf at -1.

    Reduction and polynomial follow FreeBSD's ``s_log1pf.c`` (Sun Microsystems, 1993): 1 + x is 2**k times a number near
    1, and the rounding error of 1 + x is added back.
    """
    u = float32(float32(1.0) + x)
    bits = int32(u.view(int32) + int32(ONE_BITS - SQRT_HALF_BITS))
    k = int32(int32(bits >> int32(23)) - int32(127))
    lost = (float32(1.0) - (u - x) if k >= int32(2) else x - (u - float32(1.0))) / u
    near_one = int32(int32(bits & MANTISSA) + SQRT_HALF_BITS)
    f = near_one.view(float32) - float32(1.0)
    if k == int32(0):  # without computing 1 + x: no rounding
        f = x
        lost = float32(0.0)
    s = f / (float32(2.0) + f)
    z = s * s
    w = z * z
    odd = z * (float32(0.66666662693) + w * float32(0.28498786688))
    even = w * (float32(0.40000972152) + w * float32(0.24279078841))
    half_square = float32(0.5) * f * f
    n = float32(k)
    y = s * (half_square + (odd + even)) + (n * LN2_LOW + lost) - half_square + f + n * LN2_HIGH
    if x <= float32(-1.0):
        y = NAN if x < float32(-1.0) else -INF
    return y if x < INF and x != float32(0.0) else x  # inf, NaN and both zeros are returned as they are

"""Sine, cosine and arctangent in float32. Angles are in turns, so whole turns are removed exactly.

For large angles, library sines fall back to a reduction in float64 and local memory, also on the device. These
functions have no slow path, and loops over them vectorise. Callers check the range of angles.
"""

from __future__ import annotations

import math

import numpy as np
from numpy import float32

from gpupipe_kernels.launch import fma, formula
from gpupipe_kernels.program.opcodes import MAX_TURNS

ROUND = float32(12_582_912.0)  # 1.5 * 2**23: adding and then subtracting it rounds to a whole number
ROUND_LARGE = float32(25_165_824.0)  # 1.5 * 2**24: rounds to an even number, up to `MAX_TURNS`
NAN = float32(float("nan"))
PI = float32(math.pi)
TAN_22_5 = float32(0.41421357)


@formula
def fraction(turns):
    """Return up to 2**22 turns minus the nearest whole number: -0.5 to 0.5, exact."""
    return turns - (float32(turns + ROUND) - ROUND)


@formula
def sine_of_quarter(turns):
    """Return the sine of -0.25 to 0.25 turns, by a minimax polynomial (relative error 1.5e-7)."""
    z = turns * turns
    p = float32(-76.57499) + z * float32(39.71091)
    return turns * (float32(6.2831855) + z * (float32(-41.34168) + z * (float32(81.60223) + z * p)))


@formula
def sine_of_half(turns):
    """Return the sine of -0.5 to 0.5 turns."""
    return sine_of_quarter(math.copysign(float32(0.5), turns) - turns if abs(turns) > float32(0.25) else turns)


@formula
def arctangent(y, x):
    """Return the angle of the point (x, y) in radians, -pi to pi; 0 for the origin. After Cephes' ``atanf``."""
    rise, run = abs(y), abs(x)
    low = rise if rise <= run else run
    high = run if rise <= run else rise
    past = low > TAN_22_5 * high
    q = (low - high if past else low) / (high + low if past else high)
    q = float32(0.0) if high == float32(0.0) else q
    z = q * q
    p = float32(0.1997447) + z * (float32(-0.13852087) + z * float32(0.079867326))
    angle = q + q * z * (float32(-0.33332798) + z * p)
    angle = angle + float32(math.pi / 4) if past else angle
    angle = angle if rise <= run else float32(math.pi / 2) - angle
    angle = angle if x >= float32(0.0) else PI - angle
    return math.copysign(angle, y)


@formula
def wave(x, high, low, phase):
    """Return sin(2 * pi * (x * (high + low) + phase)), within 1e-6; NaN for more than `MAX_TURNS` turns.

    `high + low` has 48 bits. The whole turns are subtracted from the exact product with `high`, and what the last
    addition rounds off is added to the fraction.
    """
    turns = float32(x * high)
    whole = float32(turns + ROUND_LARGE) - ROUND_LARGE
    a, b = fma(x, high, float32(-whole)), fma(x, low, phase)
    rest = float32(a + b)
    lost = b - float32(rest - a)
    return sine_of_half(fraction(rest) + lost) if abs(turns) <= float32(MAX_TURNS) else NAN


def wave_parameters(factor: float, offset: float) -> tuple[float, float, float]:
    """Return the arguments of `wave` for the sine of ``x * factor + offset`` radians."""
    per_turn = factor / (2 * math.pi)
    with np.errstate(over="ignore", invalid="ignore"):
        high = np.float32(per_turn)
        return float(high), float(per_turn - np.float64(high)), math.remainder(offset / (2 * math.pi), 1.0)

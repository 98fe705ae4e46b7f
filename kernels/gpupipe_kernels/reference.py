"""Formulas in float64 NumPy: the reference of the compiled formulas, and part of the NumPy interpreter.

Results are float64 and may be infinite; `in_float32` converts them to an instruction's result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpupipe_kernels.program.opcodes import MAX_DEGREES, MAX_TURNS


def in_float32(x: Any) -> Any:
    """Return float64 results as float32, NaN (null) where not finite; see `opcodes.IS_FINITE`."""
    with np.errstate(over="ignore"):
        single: Any = np.asarray(x, np.float64).astype(np.float32)
    return np.where(np.isfinite(single), single, np.float32(np.nan))


def sine(x: Any, factor: Any, offset: Any) -> Any:
    """Return ``sin(x * factor + offset)`` of float32 `x`; NaN where ``x * factor`` is more than `MAX_TURNS` turns."""
    x = np.asarray(x, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        turns = x * np.asarray(np.float64(factor) / (2 * math.pi)).astype(np.float32)
        return np.where(np.abs(turns) <= MAX_TURNS, np.sin(x.astype(np.float64) * factor + offset), np.nan)


def degrees(lat1: Any, lon1: Any, lat2: Any, lon2: Any, origin: Any) -> tuple[Any, Any, Any, Any]:
    """Return two points in float64 with absolute latitudes, from float32 degrees with latitudes relative to `origin`.

    The first latitude is NaN where a latitude or longitude is outside of `MAX_DEGREES`.
    """
    lat1, lon1, lat2, lon2, start = (np.asarray(value, np.float32) for value in (lat1, lon1, lat2, lon2, origin))
    pole, most = map(np.float32, MAX_DEGREES)
    with np.errstate(over="ignore", invalid="ignore"):
        inside = (np.maximum(lat1, lat2) <= pole - start) & (np.minimum(lat1, lat2) >= -pole - start)
        for longitude in (lon1, lon2, lon2 - lon1):
            inside = inside & (np.abs(longitude) <= most)
    return (
        np.where(inside, lat1.astype(np.float64) + origin, np.nan),
        lon1.astype(np.float64),
        lat2.astype(np.float64) + origin,
        lon2.astype(np.float64),
    )


def central_angle(lat1: Any, lon1: Any, lat2: Any, lon2: Any) -> Any:
    """Return the angle between points on a sphere in radians, by the haversine formula.

    After R. W. Sinnott, "Virtues of the haversine", Sky and Telescope 68 (1984) 159. Latitudes and longitudes are in
    degrees; float64 arrays or scalars that broadcast.
    """
    phi1, phi2 = np.radians(lat1), np.radians(lat2)
    half_chord = np.sin((phi2 - phi1) / 2) ** 2
    half_chord = half_chord + np.cos(phi1) * np.cos(phi2) * np.sin(np.radians(np.subtract(lon2, lon1)) / 2) ** 2
    return 2 * np.arcsin(np.sqrt(np.minimum(half_chord, 1.0)))


def bearing(lat1: Any, lon1: Any, lat2: Any, lon2: Any) -> Any:
    """Return the initial course of the great circle from the first to the second point, in degrees from north, 0..360.

    Clockwise; 0 if the points are equal. Coordinates are in degrees; float64 arrays or scalars that broadcast.
    """
    phi1 = np.radians(lat1)
    phi2 = np.radians(lat2)
    turn = np.radians(np.subtract(lon2, lon1))
    east = np.sin(turn) * np.cos(phi2)
    north = np.cos(phi1) * np.sin(phi2) - np.sin(phi1) * np.cos(phi2) * np.cos(turn)
    return np.degrees(np.arctan2(east, north)) % 360.0


def yeo_johnson(x: Any, exponent: float) -> Any:
    """Return the Yeo-Johnson power transformation of `x`, which is monotone and defined for every number.

    I.-K. Yeo and R. A. Johnson, "A new family of power transformations to improve normality or symmetry", Biometrika
    87 (2000) 954.
    """
    positive = np.log1p(np.maximum(x, 0.0))
    negative = np.log1p(np.maximum(np.negative(x), 0.0))
    up = np.expm1(exponent * positive) / exponent if exponent != 0 else positive
    rest = 2.0 - exponent
    down = -np.expm1(rest * negative) / rest if rest != 0 else -negative
    return np.where(np.isnan(x), np.nan, np.where(np.greater_equal(x, 0), up, down))

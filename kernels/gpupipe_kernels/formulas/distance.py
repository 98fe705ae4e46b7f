"""Distance and course on a sphere in float32, precise for both neighbours and antipodes.

Two points 100 m apart differ in the sixth digit of their degrees. To preserve those digits, latitudes are given
relative to an origin, and coordinates are subtracted first. The angle is computed from both its sine and its cosine,
because the haversine alone loses half of the digits near the antipodes: T. Vincenty, "Direct and inverse solutions of
geodesics on the ellipsoid", Survey Review 23 (1975) 88, on a sphere.
"""

from __future__ import annotations

import math
from typing import Any

from numpy import float32

from gpupipe_kernels.formulas.angle import arctangent, cosine_of_turns, sine_of_turns
from gpupipe_kernels.launch import formula

PER_DEGREE = float32(1 / 360)  # turns
DEGREES = float32(180 / math.pi)  # per radian


@formula
def course(lat1: Any, lon1: Any, lat2: Any, lon2: Any, origin: Any) -> Any:
    """Return the direction of the second point seen from the first: its components north, east and inwards.

    Coordinates are in degrees, latitudes relative to `origin`.
    """
    d_lat = float32(lat2 - lat1) * PER_DEGREE
    d_lon = float32(lon2 - lon1) * PER_DEGREE
    phi1, phi2 = float32(lat1 + origin) * PER_DEGREE, float32(lat2 + origin) * PER_DEGREE
    cosine2 = cosine_of_turns(phi2)
    half_lat, half_lon = sine_of_turns(float32(0.5) * d_lat), sine_of_turns(float32(0.5) * d_lon)
    turned = float32(2.0) * cosine2 * half_lon * half_lon
    north = sine_of_turns(d_lat) + sine_of_turns(phi1) * turned
    east = cosine2 * sine_of_turns(d_lon)
    inwards = float32(1.0) - float32(2.0) * half_lat * half_lat - cosine_of_turns(phi1) * turned
    return north, east, inwards


@formula
def distance(north: Any, east: Any, inwards: Any, radius: Any) -> Any:
    """Return the great-circle distance along a course, in the unit of `radius`."""
    return radius * arctangent(math.sqrt(north * north + east * east), inwards)


@formula
def bearing(north: Any, east: Any) -> Any:
    """Return the initial direction of a course in degrees from north, clockwise, 0 to 360; 0 if undefined."""
    degrees = arctangent(east, north) * DEGREES
    return degrees + float32(360.0) if degrees < float32(0.0) else degrees

"""Distance and course on a sphere in float32, precise for both neighbours and antipodes.

Two points 100 m apart differ in the sixth digit of their degrees. To preserve those digits, latitudes are given
relative to an origin, and coordinates are subtracted first. The angle is computed from both its sine and its cosine,
because the haversine alone loses half of the digits near the antipodes: T. Vincenty, "Direct and inverse solutions of
geodesics on the ellipsoid", Survey Review 23 (1975) 88, on a sphere.
"""

from __future__ import annotations

import math

from numpy import float32

from gpupipe_kernels.formulas.angle import NAN, arctangent, fraction, sine_of_half, sine_of_quarter
from gpupipe_kernels.launch import formula
from gpupipe_kernels.program.opcodes import MAX_DEGREES

PER_DEGREE = float32(1 / 360)  # turns
QUARTER = float32(0.25)
DEGREES = float32(180 / math.pi)  # per radian
POLE, MAX_LONGITUDE = map(float32, MAX_DEGREES)


@formula
def course(lat1, lon1, lat2, lon2, origin):
    """Return the direction of the second point seen from the first: its components north, east and inwards.

    Coordinates are in degrees, latitudes relative to `origin`. East is NaN where `reference.degrees` is.
    """
    d_lon = float32(lon2 - lon1)
    top, bottom = float32(POLE - origin), float32(-POLE - origin)
    # Without `and`: its branches keep loops from being vectorised. A null is outside.
    is_inside = (lat1 <= top) & (lat1 >= bottom) & (lat2 <= top) & (lat2 >= bottom)
    is_inside &= (abs(lon1) <= MAX_LONGITUDE) & (abs(lon2) <= MAX_LONGITUDE) & (abs(d_lon) <= MAX_LONGITUDE)
    d_lat, d_lon = float32(lat2 - lat1) * PER_DEGREE, d_lon * PER_DEGREE
    phi1, phi2 = float32(lat1 + origin) * PER_DEGREE, float32(lat2 + origin) * PER_DEGREE
    cosine1, cosine2 = sine_of_quarter(QUARTER - abs(phi1)), sine_of_quarter(QUARTER - abs(phi2))
    half_lat, half_lon = sine_of_quarter(float32(0.5) * d_lat), sine_of_half(fraction(float32(0.5) * d_lon))
    turned = float32(2.0) * cosine2 * half_lon * half_lon
    north = sine_of_half(d_lat) + sine_of_quarter(phi1) * turned
    east = cosine2 * sine_of_half(fraction(d_lon))
    inwards = float32(1.0) - float32(2.0) * half_lat * half_lat - cosine1 * turned
    return north, east if is_inside else NAN, inwards


@formula
def distance(north, east, inwards, radius):
    """Return the great-circle distance along a course, in the unit of `radius`."""
    return radius * arctangent(math.sqrt(north * north + east * east), inwards)


@formula
def bearing(north, east):
    """Return the initial direction of a course in degrees from north, clockwise, 0 to 360; 0 if undefined."""
    degrees = arctangent(east, north) * DEGREES
    return degrees + float32(360.0) if degrees < float32(0.0) else degrees

"""Formulas of feature instructions as ONNX nodes: logarithms, powers, angles and calendar parts.

They are computed in float64, except for the arctangent: ONNX Runtime has it in float32 only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.inference.targets.calendar import Integers
from gpupipe_kernels.program.opcodes import NAT

if TYPE_CHECKING:
    from gpupipe.inference.onnx.graph import OnnxGraph
    from gpupipe.typing import HostArray


def finite(graph: OnnxGraph, x: str) -> str:
    """Return `x`, float32, with NaN instead of infinities."""
    return graph.where(graph.add("IsInf", x), graph.constant(math.nan, np.float32), x)


def null_unless(graph: OnnxGraph, found: str, *conditions: str) -> str:
    """Return `found`, float32, with NaN where a condition does not hold."""
    all_hold = reduce(lambda a, b: graph.add("And", a, b), conditions)
    return graph.where(all_hold, found, graph.constant(math.nan, np.float32))


def is_at_most(graph: OnnxGraph, x: str, most: float) -> str:
    """Return whether the size of `x`, float32, is at most a limit; not if it is NaN."""
    return graph.add("LessOrEqual", graph.add("Abs", x), graph.constant(most, np.float32))


def log1p(graph: OnnxGraph, x: str) -> str:
    """Return log(1 + x) of float64 values, without loss near 0 (W. Kahan's correction)."""
    one = graph.constant(1.0, np.float64)
    u = graph.add("Add", x, one)
    exact = graph.add("Div", graph.add("Mul", graph.add("Log", u), x), graph.add("Sub", u, one))
    return graph.where(graph.add("Equal", u, one), x, exact)


def expm1(graph: OnnxGraph, x: str) -> str:
    """Return exp(x) - 1 of float64 values, without loss near 0; infinite or NaN if it overflows."""
    one = graph.constant(1.0, np.float64)
    u = graph.add("Exp", x)
    less = graph.add("Sub", u, one)
    exact = graph.add("Div", graph.add("Mul", less, x), graph.add("Log", u))
    found = graph.where(graph.add("Equal", u, one), x, exact)
    return graph.where(graph.add("Equal", less, graph.constant(-1.0, np.float64)), less, found)


def yeo_johnson(graph: OnnxGraph, x: str, exponents: list[float]) -> str:
    """Return the Yeo-Johnson transformation of the columns of `x`, float64, each with its exponent."""
    zero = graph.constant(0.0, np.float64)
    is_up = graph.add("GreaterOrEqual", x, zero)
    logarithm = log1p(graph, graph.add("Abs", x))
    up = np.array(exponents, np.float64)
    power = graph.where(is_up, graph.constant(up), graph.constant(2.0 - up))
    is_zero = graph.add("Equal", power, zero)
    divisor = graph.where(is_zero, graph.constant(1.0, np.float64), power)
    powered = graph.add("Div", expm1(graph, graph.add("Mul", power, logarithm)), divisor)
    size = graph.where(is_zero, logarithm, powered)
    found = graph.where(is_up, size, graph.add("Neg", size))
    return graph.where(graph.add("IsNaN", x), x, found)


def arctangent(graph: OnnxGraph, y: str, x: str) -> str:
    """Return the angle of the points (x, y), float64, in radians from -pi/2 to 3/2 pi; 0 for the origin.

    The float32 angle is corrected by the remaining angle, whose tangent is as good as the angle itself.
    """
    zero = graph.constant(0.0, np.float64)
    run = graph.where(graph.add("Equal", x, zero), zero, x)  # without the sign of -0.0
    is_origin = graph.add("And", graph.add("Equal", y, zero), graph.add("Equal", run, zero))
    slope = graph.where(is_origin, zero, graph.add("Div", y, run))
    near = graph.cast(graph.add("Atan", graph.cast(slope, np.float32)), np.float64)
    half_turn = graph.where(graph.add("Less", run, zero), graph.constant(math.pi, np.float64), zero)
    near = graph.add("Add", near, half_turn)
    sine, cosine = graph.add("Sin", near), graph.add("Cos", near)
    past = graph.add("Sub", graph.add("Mul", y, cosine), graph.add("Mul", run, sine))
    along = graph.add("Add", graph.add("Mul", run, cosine), graph.add("Mul", y, sine))
    rest = graph.add("Div", past, graph.where(is_origin, graph.constant(1.0, np.float64), along))
    return graph.add("Add", near, rest)


def central_angle(graph: OnnxGraph, lat1: str, lon1: str, lat2: str, lon2: str) -> str:
    """Return the angle between points on a sphere, in radians; see `gpupipe_kernels.reference.central_angle`."""
    half, one = graph.constant(0.5, np.float64), graph.constant(1.0, np.float64)

    def squared_sine(a: str, b: str) -> str:
        sine = graph.add("Sin", graph.add("Mul", graph.add("Sub", b, a), half))
        return graph.add("Mul", sine, sine)

    phi1, phi2 = radians(graph, lat1), radians(graph, lat2)
    cosines = graph.add("Mul", graph.add("Cos", phi1), graph.add("Cos", phi2))
    across = graph.add("Mul", cosines, squared_sine(radians(graph, lon1), radians(graph, lon2)))
    chord = graph.add("Add", squared_sine(phi1, phi2), across)
    chord = graph.where(graph.add("Greater", chord, one), one, chord)
    angle = arctangent(graph, graph.add("Sqrt", chord), graph.add("Sqrt", graph.add("Sub", one, chord)))
    return graph.add("Mul", angle, graph.constant(2.0, np.float64))


def bearing(graph: OnnxGraph, lat1: str, lon1: str, lat2: str, lon2: str) -> str:
    """Return the initial course from the first to the second point, in degrees; see `gpupipe_kernels.reference`."""
    phi1, phi2 = radians(graph, lat1), radians(graph, lat2)
    turn = radians(graph, graph.add("Sub", lon2, lon1))
    sin1, cos1 = graph.add("Sin", phi1), graph.add("Cos", phi1)
    sin2, cos2 = graph.add("Sin", phi2), graph.add("Cos", phi2)
    east = graph.add("Mul", graph.add("Sin", turn), cos2)
    along = graph.add("Mul", graph.add("Mul", sin1, cos2), graph.add("Cos", turn))
    north = graph.add("Sub", graph.add("Mul", cos1, sin2), along)
    degrees = graph.add("Mul", arctangent(graph, east, north), graph.constant(180.0 / math.pi, np.float64))
    is_west = graph.add("Less", degrees, graph.constant(0.0, np.float64))
    return graph.where(is_west, graph.add("Add", degrees, graph.constant(360.0, np.float64)), degrees)


def local_time(graph: OnnxGraph, time: str, zones: Sequence[HostArray], index: str | None = None) -> str:
    """Return int64 times in a time zone, or in those of `index`, by binary search; NAT where the zone is unknown."""
    depth = max(len(zone) // 2 for zone in zones).bit_length()
    n = 2**depth  # entries of each zone; the last transition is never reached
    transitions = np.full((len(zones), n), np.iinfo(np.int64).max)
    offsets = np.full((len(zones), n), NAT)
    for row, zone in enumerate(zones):
        half = len(zone) // 2
        transitions[row, :half], offsets[row, : half + len(zone) % 2] = zone[:half], zone[half:]
    known = graph.constant(transitions.ravel())
    start = graph.constant(0, np.int64) if index is None else graph.add("Mul", index, graph.constant(n, np.int64))
    position = start  # that of the zone, and the number of transitions up to the time
    for step in reversed(range(depth)):
        further = graph.add("Add", position, graph.constant(2**step, np.int64))
        last = graph.add("Gather", known, graph.add("Sub", further, graph.constant(1, np.int64)))
        position = graph.where(graph.add("LessOrEqual", last, time), further, position)
    offset = graph.add("Gather", graph.constant(offsets.ravel()), position)
    is_unknown = graph.add("Equal", offset, graph.constant(NAT, np.int64))
    return graph.where(is_unknown, offset, graph.add("Add", time, offset))


def radians(graph: OnnxGraph, degrees: str) -> str:
    """Return degrees, float64, in radians."""
    return graph.add("Mul", degrees, graph.constant(math.pi / 180.0, np.float64))


class IntegerNodes(Integers[str]):
    """Integer arithmetic on int64 values, in the words of `gpupipe_kernels.formulas.calendar`."""

    def __init__(self, graph: OnnxGraph) -> None:
        self.graph = graph

    def plus(self, x: str, y: str | int) -> str:
        """Return x + y."""
        return self.graph.add("Add", x, self._value(y))

    def minus(self, x: str, y: str) -> str:
        """Return x - y."""
        return self.graph.add("Sub", x, y)

    def times(self, x: str, y: int) -> str:
        """Return x * y."""
        return self.graph.add("Mul", x, self._value(y))

    def positive_quotient(self, x: str, y: int) -> str:
        """Return x, which is not negative, divided by y, rounded down."""
        return self.graph.add("Div", x, self._value(y))

    def remainder(self, x: str, y: int) -> str:
        """Return x modulo y, from 0 to y - 1."""
        return self.graph.add("Mod", x, self._value(y))

    def is_equal(self, x: str, y: int) -> str:
        """Return 1 where x is y, else 0."""
        return self.graph.cast(self.graph.add("Equal", x, self._value(y)), np.int64)

    def if_less(self, x: str, y: int, yes: str, no: str) -> str:
        """Return `yes` where x is less than y, else `no`."""
        return self.graph.where(self.graph.add("Less", x, self._value(y)), yes, no)

    def named(self, x: str) -> str:
        """Return x: nodes have names."""
        return x

    def _value(self, y: str | int) -> str:
        return y if isinstance(y, str) else self.graph.constant(y, np.int64)

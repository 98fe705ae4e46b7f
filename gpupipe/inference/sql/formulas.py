"""Formulas of feature instructions in SQL: integer arithmetic, angles and powers.

Subexpressions that a formula reads more than once are named values of the query.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from gpupipe.inference.sql.dialect import Expr, case, integer, is_null, number
from gpupipe.inference.targets.calendar import Integers

if TYPE_CHECKING:
    from gpupipe.inference.sql.query import SqlQuery


class IntegerExpressions(Integers[Expr]):
    """Integer arithmetic in SQL; null gives null."""

    def __init__(self, query: SqlQuery) -> None:
        self.query = query

    def plus(self, x: Expr, y: Expr | int) -> Expr:
        """Return x + y."""
        return exp.Paren(this=x + (integer(y) if isinstance(y, int) else y))

    def minus(self, x: Expr, y: Expr) -> Expr:
        """Return x - y."""
        return exp.Paren(this=x - y)

    def times(self, x: Expr, y: int) -> Expr:
        """Return x * y."""
        return exp.Paren(this=x * integer(y))

    def positive_quotient(self, x: Expr, y: int) -> Expr:
        """Return x divided by y, rounded down."""
        return self.query.dialect.quotient(x, y)

    def remainder(self, x: Expr, y: int) -> Expr:
        """Return x modulo y, from 0 to y - 1; the remainder of engines has the sign of x."""
        once = exp.Mod(this=exp.Paren(this=x), expression=integer(y))
        return exp.Paren(this=exp.Mod(this=exp.Paren(this=exp.Paren(this=once) + integer(y)), expression=integer(y)))

    def is_equal(self, x: Expr, y: int) -> Expr:
        """Return 1 where x is y, else 0."""
        return case([(is_null(x), exp.Null()), (x.copy().eq(integer(y)), integer(1))], integer(0))

    def if_less(self, x: Expr, y: int, yes: Expr, no: Expr) -> Expr:
        """Return `yes` where x is less than y, else `no`."""
        return case([(x < integer(y), yes)], no)

    def named(self, x: Expr) -> Expr:
        """Return x as a named value."""
        return self.query.define(x)


def utc_offset(time: Expr, zone: Sequence[int], n: int, first: int = 0) -> Expr:
    """Return the offset of a time zone from UTC as nested conditions; `first` to `n` are the offsets that may hold.

    `zone`: transitions and offsets, as in `gpupipe_kernels.formulas.calendar.local_times`.
    """
    if first == n:
        return integer(zone[len(zone) // 2 + n])
    middle = (first + n) // 2
    earlier, later = utc_offset(time, zone, middle, first), utc_offset(time, zone, n, middle + 1)
    return case([(time < integer(zone[middle]), earlier)], later)


def radians(degrees: Expr) -> Expr:
    """Return degrees in radians."""
    return degrees * number(math.pi / 180.0)


def central_angle(query: SqlQuery, lat1: Expr, lon1: Expr, lat2: Expr, lon2: Expr) -> Expr:
    """Return the angle between points on a sphere, in radians; see `gpupipe_kernels.reference.central_angle`."""
    call = query.dialect.call
    phi1, phi2 = query.define(radians(lat1)), query.define(radians(lat2))
    up = query.define(call("SIN", (phi2 - phi1) * number(0.5)))
    across = query.define(call("SIN", radians(lon2 - lon1) * number(0.5)))
    cosines = call("COS", phi1) * call("COS", phi2)
    chord = query.define(up * up + cosines * across * across)
    chord = query.define(case([(chord > number(1.0), query.dialect.double(1.0))], chord))
    return call("ATAN2", call("SQRT", chord), call("SQRT", number(1.0) - chord)) * number(2.0)


def bearing(query: SqlQuery, lat1: Expr, lon1: Expr, lat2: Expr, lon2: Expr) -> Expr:
    """Return the initial course from the first to the second point, in degrees; see `gpupipe_kernels.reference`."""
    call = query.dialect.call
    phi1, phi2 = query.define(radians(lat1)), query.define(radians(lat2))
    turn = query.define(radians(lon2 - lon1))
    east = call("SIN", turn) * call("COS", phi2)
    along = call("SIN", phi1) * call("COS", phi2) * call("COS", turn)
    north = call("COS", phi1) * call("SIN", phi2) - along
    degrees = query.define(call("ATAN2", east, north) * number(180.0 / math.pi))
    return case([(degrees < number(0.0), degrees + number(360.0))], degrees)


def yeo_johnson(query: SqlQuery, x: Expr, exponent: float) -> Expr:
    """Return the Yeo-Johnson transformation; see `gpupipe_kernels.reference.yeo_johnson`."""
    dialect = query.dialect
    logarithm = query.define(dialect.log1p(query.define(dialect.call("ABS", x))))

    def side(power: float) -> Expr:
        if power == 0:
            return logarithm.copy()
        return dialect.divide(dialect.expm1(query.define(logarithm * number(power))), number(power))

    down = exp.Neg(this=exp.Paren(this=side(2.0 - exponent)))
    return case([(x >= number(0.0), side(exponent)), (x < number(0.0), down)], None)

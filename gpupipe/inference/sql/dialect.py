"""Expressions of SQL dialects: numbers, casts and rounding to float32, as nodes of sqlglot.

A value is a float64 number; null stands for NaN, and no value is infinite. A dialect with a float32 type casts to it;
in others, adding and subtracting 1.5 * 2^29 times the power of two below a number rounds it to 24 bits, half to even.
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Expr = exp.Expr

EXECUTED = ("duckdb", "postgres", "sqlite")  # dialects whose engines can compare the query with its model
DIALECTS = (*EXECUTED, "snowflake", "bigquery", "spark")
TITLES = {"duckdb": "DuckDB", "postgres": "PostgreSQL", "sqlite": "SQLite", "snowflake": "Snowflake",
          "bigquery": "BigQuery", "spark": "Spark"}  # fmt: skip
INFINITE = 2.0**128 - 2.0**103  # the smallest number that float32 rounds to infinity
ZERO = 2.0**-150  # the largest number that float32 rounds to 0
LEAST_EXPONENT = -126  # of float32 numbers with 24 bits
LARGEST = float(np.finfo(np.float32).max)
FAR = 700.0  # exp(-FAR) and exp(FAR) are neither 0 nor infinite, which are errors in PostgreSQL
LEAF_DIGITS = 12
# Python's blanks; the engines differ in what TRIM removes by default.
BLANKS = "".join(each for each in map(chr, range(1, 0x3001)) if each.isspace())


class SqlDialect:
    """Builder of expressions in a dialect; `name` is one of `DIALECTS`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.has_float32 = name in ("duckdb", "postgres", "spark")
        self.is_postgres, self.is_sqlite = name == "postgres", name == "sqlite"

    def __repr__(self) -> str:
        return f"SqlDialect({self.name!r})"

    def cast(self, x: Expr, kind: str) -> Expr:
        """Return an expression converted to ``double``, ``float``, ``bigint`` or ``text``."""
        return exp.Cast(this=x, to=exp.DataType.build(kind))

    def double(self, value: float) -> Expr:
        """Return a constant of the type float64; a number with an exponent is a decimal in PostgreSQL."""
        found = number(value)
        return self.cast(found, "double") if self.is_postgres or isinstance(found, exp.Null) else found

    def leaf(self, value: float) -> Expr:
        """Return a term of a long sum: a constant of the type float64 with 12 digits."""
        return self.double(float(f"{value:.{LEAF_DIGITS}g}"))

    def call(self, name: str, *arguments: Expr) -> Expr:
        """Return a call of a function that has the same name in all dialects."""
        return exp.Anonymous(this=name, expressions=list(arguments))

    def error(self, what: str, raw: Expr) -> Expr:
        """Return an error of SQLite about a value that is not null: a path of JSON, which its message shows."""
        return self.call("JSON_EXTRACT", text("{}"), exp.DPipe(this=text(what), expression=raw.copy()))

    def stripped(self, raw: Expr) -> Expr:
        """Return a text without blanks at its ends; engines take long to look for many characters in each text."""
        last: Expr = exp.Right(this=raw.copy(), expression=integer(1))
        if self.is_sqlite:
            last = exp.Substring(this=raw.copy(), start=integer(-1))
        is_visible = [
            exp.Between(this=exp.Unicode(this=each), low=integer(33), high=integer(126)) for each in (raw.copy(), last)
        ]
        return case([(all_of(is_visible), raw)], exp.Trim(this=raw.copy(), expression=text(BLANKS)))

    def divide(self, x: Expr, y: Expr) -> Expr:
        """Return the quotient of float64 numbers; the divisor is not 0."""
        return exp.Div(this=_wrapped(x), expression=_wrapped(y), typed=True, safe=False)

    def quotient(self, x: Expr, y: int) -> Expr:
        """Return the quotient of integers that are not negative, rounded down."""
        divisor = integer(y)
        if self.is_postgres or self.is_sqlite:  # there, the function for integers is one for decimals
            return exp.Paren(this=exp.Div(this=_wrapped(x), expression=divisor, typed=True, safe=False))
        return exp.Paren(this=exp.IntDiv(this=_wrapped(x), expression=divisor))

    def extreme(self, word: str, values: Sequence[Expr]) -> Expr:
        """Return the least or greatest value of a row, by the word ``MIN`` or ``MAX``; none is null."""
        name = word if self.is_sqlite else {"MIN": "LEAST", "MAX": "GREATEST"}[word]
        return values[0] if len(values) == 1 else self.call(name, *values)

    def clipped(self, x: Expr, limit: float) -> Expr:
        """Return a number that is not null, between -limit and limit."""
        return self.extreme("MAX", [self.extreme("MIN", [x, self.double(limit)]), self.double(-limit)])

    def rounded(self, x: Expr) -> Expr:
        """Return a column in float32, as float64; null where float32 is infinite."""
        size = self.call("ABS", x.copy())
        if self.has_float32:
            found = self.cast(self.cast(x.copy(), "float"), "double")
            branches: list[tuple[Expr, Expr]] = [(size < number(INFINITE), found)]
            if self.is_postgres:  # where a number that becomes 0 is an error
                branches.insert(0, (size <= number(ZERO), self.double(0.0)))
            return case(branches, None)
        exponent = self.call("FLOOR", exp.Log(this=integer(2), expression=size))
        exponent = self.extreme("MAX", [exponent, integer(LEAST_EXPONENT)])
        shift = number(1.5) * exp.Pow(this=number(2.0), expression=exponent + integer(29))
        found = exp.Paren(this=x.copy() + shift) - shift.copy()
        return case([(x.copy().eq(number(0.0)), self.double(0.0)), (size < number(INFINITE), found)], None)

    def is_left(self, x: Expr, limit: float, is_rounded: bool) -> Expr | None:
        """Return whether float32(x) is at most a float32 limit, or None if every or no number is.

        If `is_rounded`, x is a float32 number, and any limit below the next one decides alike: the shortest is written.
        Else x is the number before it is rounded. Half-way to the next float32 number, it is rounded to the even one.
        """
        if limit >= LARGEST or limit == -math.inf:
            return None
        if is_rounded:
            return x < number(shortest_after(limit))
        at = np.float32(limit)
        middle = (float(at) + float(np.nextafter(at, np.float32(np.inf)))) / 2
        is_even = not int(at.view(np.int32)) & 1
        return x <= number(middle) if is_even else x < number(middle)

    def sigmoid(self, x: Expr) -> Expr:
        """Return 1 / (1 + exp(-x)) of a number that is not null."""
        power = exp.Exp(this=exp.Neg(this=exp.Paren(this=self.clipped(x, FAR))))
        return self.divide(self.double(1.0), self.double(1.0) + power)

    def log1p(self, x: Expr) -> Expr:
        """Return log(1 + x) of a column above -1, without loss near 0 (W. Kahan's correction)."""
        u = number(1.0) + x.copy()
        product = exp.Ln(this=u.copy()) * x.copy()
        exact = self.divide(product, exp.Paren(this=u.copy() - number(1.0)))
        return case([(exp.Paren(this=u).eq(number(1.0)), x.copy())], exact)

    def expm1(self, x: Expr) -> Expr:
        """Return exp(x) - 1 of a column, without loss near 0; null where it is more than float32 has."""
        u = exp.Exp(this=self.clipped(x.copy(), FAR))
        less = u.copy() - number(1.0)
        exact = self.divide(exp.Paren(this=less.copy()) * x.copy(), exp.Ln(this=u.copy()))
        small = case([(u.copy().eq(number(1.0)), x.copy())], exact)
        is_small = self.call("ABS", x.copy()) < number(0.5)
        return case([(is_small, small), (x.copy() < number(100.0), less)], None)


def number(value: float) -> Expr:
    """Return a constant; NaN is null. With an exponent, it is float64 in most dialects."""
    if math.isnan(value):
        return exp.Null()
    if math.isinf(value):
        raise ValueError("an infinite number in the tables of the model")
    text = repr(abs(float(value)))
    text = text if "e" in text else f"{text.removesuffix('.0')}e0"
    found = exp.Literal(this=text, is_string=False)
    return exp.Neg(this=found) if value < 0 else found


def integer(value: int) -> Expr:
    """Return an integer constant."""
    found = exp.Literal(this=str(abs(value)), is_string=False)
    return exp.Neg(this=found) if value < 0 else found


def text(value: str) -> Expr:
    """Return a text constant."""
    return exp.Literal(this=value, is_string=True)


def column(name: str) -> exp.Column:
    """Return a column of the query itself."""
    return exp.Column(this=exp.to_identifier(name))


def case(branches: Iterable[tuple[Expr, Expr]], otherwise: Expr | None) -> Expr:
    """Return the value of the first condition that holds, else `otherwise`; None is null."""
    ifs = [exp.If(this=condition, true=found) for condition, found in branches]
    if not ifs:
        return exp.Null() if otherwise is None else otherwise
    return exp.Case(ifs=ifs, default=otherwise) if otherwise is not None else exp.Case(ifs=ifs)


def is_null(x: Expr) -> Expr:
    """Return whether a value is null."""
    return exp.Is(this=_wrapped(x), expression=exp.Null())


def is_in(x: Expr, values: Iterable[Expr]) -> Expr:
    """Return whether a value is one of several."""
    return exp.In(this=_wrapped(x), expressions=list(values))


def total(terms: Sequence[Expr]) -> Expr:
    """Return a sum as a balanced tree: engines and sqlglot limit the depth of expressions."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return exp.Add(this=_grouped(total(terms[:half])), expression=_grouped(total(terms[half:])))


def all_of(conditions: Iterable[Expr]) -> Expr:
    """Return whether all conditions hold."""
    return reduce(lambda a, b: exp.And(this=a, expression=b), conditions)


def _wrapped(x: Expr) -> Expr:
    return exp.Paren(this=x) if isinstance(x, exp.Binary | exp.Neg) else x


def _grouped(x: Expr) -> Expr:
    return exp.Paren(this=x) if isinstance(x, exp.Add) else x


@lru_cache(maxsize=65_536)
def shortest_after(limit: float) -> float:
    """Return the number with the fewest digits above a float32 number and not above the next one."""
    at = np.float32(limit)
    after = float(np.nextafter(at, np.float32(np.inf)))
    middle = (float(at) + after) / 2
    for digits in range(1, 18):
        for near in (after, middle):
            found = float(f"{near:.{digits}g}")
            if limit < found <= after:
                return found + 0.0
    return after


def identifier(name: Any, dialect: SqlDialect) -> str:
    """Return a name as SQL text, for comments."""
    return exp.to_identifier(str(name), quoted=True).sql(dialect.name)

"""Arithmetic on numbers and expressions.

A program has no instruction that compares. So a condition is a difference, stretched until all that is above 0 is 1 and
the rest is 0, and the choice between two columns is a sum in which one of them is multiplied by 0.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

from gpupipe.features.program.expressions import NumericExpr, combine, count_registers
from gpupipe_kernels.program.opcodes import N_REGISTERS

Value = NumericExpr | float

COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
STRETCH = 2.0**100  # twice, it takes the least float32 above 0 beyond 1
FLOAT32 = (2.0**-126, 3.4028234e38)  # the least and the greatest normal number
MOST_POWER = 8
INFINITE = math.inf


class Unsupported(Exception):
    """An operation that a program cannot do, or that has no result.

    Attributes
    ----------
    what, fix : str
    """

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


class ColumnArithmetic:
    """Arithmetic in which each operand is a number or a column; of numbers alone the result is a number.

    Parameters
    ----------
    name : str
        What intermediate columns are called.
    centred : callable
        Moves two columns whose difference is taken nearer to 0, both by the same number.
    """

    def __init__(self, name: str, centred: Callable[[list[NumericExpr]], list[NumericExpr]]) -> None:
        self.name, self._centred = name, centred

    def add(self, x: Value, y: Value) -> Value:
        """Return x + y."""
        if isinstance(y, float):
            return x + y if isinstance(x, float) else x.then("CENTER", -y, 1.0)
        return self.add(y, x) if isinstance(x, float) else self._apply("ADD", *_deeper_first(x, y))

    def subtract(self, x: Value, y: Value) -> Value:
        """Return x - y."""
        if isinstance(y, float):
            return self.add(x, -y)
        if isinstance(x, float):
            return y.then("CENTER", x, -1.0)
        return self._apply("SUBTRACT", *self._centred([x, y]))

    def multiply(self, x: Value, y: Value) -> Value:
        """Return x * y."""
        if isinstance(y, float):
            return x * y if isinstance(x, float) else x.then("CENTER", 0.0, y)
        return self.multiply(y, x) if isinstance(x, float) else self._apply("MULTIPLY", *_deeper_first(x, y))

    def divide(self, x: Value, y: Value) -> Value:
        """Return x / y, null where y is 0.

        Raises
        ------
        Unsupported
            If y is the number 0.
        """
        if not isinstance(y, float):
            return self._apply("DIVIDE", _constant_beside(y, x) if isinstance(x, float) else x, y)
        if not y:
            raise Unsupported("this divides by 0")
        return x / y if isinstance(x, float) else x.then("CENTER", 0.0, 1.0 / y)

    def power(self, x: Value, exponent: Value) -> Value:
        """Return x to the power of a whole number.

        Raises
        ------
        Unsupported
            If the exponent is another number, or a column.
        """
        if not isinstance(exponent, float) or not exponent.is_integer() or not 1 <= abs(exponent) <= MOST_POWER:
            raise Unsupported(
                "this exponent is not supported", f"whole numbers from 1 to {MOST_POWER}, and from -{MOST_POWER} to -1"
            )
        made = reduce(self.multiply, [x] * int(abs(exponent)))
        return made if exponent > 0 else self.divide(1.0, made)

    def clip(self, x: Value, low: float, high: float) -> Value:
        """Return x, at least `low` and at most `high`."""
        if low > high:
            raise Unsupported(f"the lower bound {low:g} is above the upper bound {high:g}")
        return min(max(x, low), high) if isinstance(x, float) else x.then("CLIP", low, high)

    def absolute(self, x: Value) -> Value:
        """Return x without its sign."""
        return self.add(self.clip(x, 0.0, INFINITE), self.clip(self.multiply(x, -1.0), 0.0, INFINITE))

    def log1p(self, x: Value) -> Value:
        """Return the logarithm of 1 + x, null from -1 down."""
        if not isinstance(x, float):
            return x.then("LOG1P")
        if x <= -1:
            raise Unsupported(f"the logarithm of {1 + x:g} is not a number")
        return math.log1p(x)

    def log(self, x: Value) -> Value:
        """Return the logarithm of x, null from 0 down.

        It is that of x from 1 on, less that of 1 / x below 1: log1p loses digits of what is near -1.
        """
        if isinstance(x, float):
            return self.log1p(x - 1.0)
        above = self.add(self.clip(x, 1.0, INFINITE), -1.0)
        below = self.add(self.divide(1.0, self.clip(x, -INFINITE, 1.0)), -1.0)
        return self.subtract(self.log1p(above), self.log1p(below))

    def fill(self, x: Value, value: float) -> Value:
        """Return x, and `value` where it is null."""
        return x if isinstance(x, float) else x.then("FILL", value)

    def compare(self, op: type[ast.cmpop], x: Value, y: Value) -> Value:
        """Return 1 where a comparison holds, else 0."""
        if isinstance(x, float) and isinstance(y, float):
            return float(COMPARISONS[op](x, y))
        if op in (ast.Lt, ast.GtE):
            x, y = y, x
        above = _positive(self.subtract(x, y))
        if op in (ast.Gt, ast.Lt):
            return above
        if op in (ast.GtE, ast.LtE):
            return self.negate(above)
        differs = self.add(above, _positive(self.subtract(y, x)))
        return differs if op is ast.NotEq else self.negate(differs)

    def negate(self, condition: Value) -> Value:
        """Return 1 where a condition is 0, and 0 where it is 1."""
        return self.subtract(1.0, condition)

    def all(self, conditions: Sequence[Value]) -> Value:
        """Return 1 where all conditions are 1."""
        return reduce(self.multiply, conditions)

    def any(self, conditions: Sequence[Value]) -> Value:
        """Return 1 where a condition is 1."""
        return self.negate(self.all([self.negate(condition) for condition in conditions]))

    def choose(self, condition: Value, x: Value, y: Value) -> Value:
        """Return x where a condition is 1 and y where it is 0; null where one of the three is."""
        return self.add(self.multiply(condition, x), self.multiply(self.negate(condition), y))

    def least(self, x: Value, y: Value) -> Value:
        """Return the lesser of two values."""
        if isinstance(x, float):
            x, y = y, x
        return self.clip(x, -INFINITE, y) if isinstance(y, float) else self.choose(self.compare(ast.Lt, x, y), x, y)

    def greatest(self, x: Value, y: Value) -> Value:
        """Return the greater of two values."""
        if isinstance(x, float):
            x, y = y, x
        return self.clip(x, y, INFINITE) if isinstance(y, float) else self.choose(self.compare(ast.Gt, x, y), x, y)

    def _apply(self, op: str, x: NumericExpr, y: NumericExpr) -> NumericExpr:
        if (n := max(count_registers(x), 1 + count_registers(y))) > N_REGISTERS:
            raise Unsupported(
                f"this needs {n} intermediate results; there is room for {N_REGISTERS}",
                "give a part of it as an expression before",
            )
        return combine(self.name, op, (x, y))


def constant(value: float) -> float:
    """Return a number that float32 can hold.

    Raises
    ------
    Unsupported
        If it is too large, or too near to 0.
    """
    low, high = FLOAT32
    if value and not low <= abs(value) <= high:
        raise Unsupported(f"the number {value:g} exceeds float32", f"between {low:.1e} and {high:.1e}")
    return value


def n_instructions(column: NumericExpr) -> int:
    """Return how many instructions write a column, an index counted as one."""
    below = sum(n_instructions(operand) + 1 for operand in column.producer.operands)
    return below + len(column.transforms) + (2 if column.producer.codes is not None else 1)


def _deeper_first(x: NumericExpr, y: NumericExpr) -> tuple[NumericExpr, NumericExpr]:
    """Return two columns in the order that needs fewer registers."""
    return (y, x) if count_registers(y) > count_registers(x) else (x, y)


def _positive(x: Value) -> Value:
    """Return 1 where x is above 0, else 0."""
    if isinstance(x, float):
        return float(x > 0)
    for _ in range(2):
        x = x.then("CLIP", -1.0, 1.0).then("CENTER", 0.0, STRETCH)
    return x.then("CLIP", 0.0, 1.0)


def _constant_beside(column: NumericExpr, value: float) -> NumericExpr:
    """Return the column that has one value in every row; a program has no constants, so it begins with a source."""
    while column.producer.operands:
        column = column.producer.operands[0]
    return replace(column, transforms=()).then("FILL", value).then("CLIP", value, value)

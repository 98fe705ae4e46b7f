"""Arithmetic on numbers and expressions.

Programs have no comparison instruction. A condition is therefore a difference, scaled and clipped so that positive
values become 1 and others 0; a choice between two columns is a sum in which one of them is multiplied by 0.
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
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
STRETCH = 2.0**100  # applied twice, it maps the smallest positive float32 to more than 1
FLOAT32 = (2.0**-126, 3.4028234e38)  # smallest and largest normal number
MOST_POWER = 8
INFINITE = math.inf


class Unsupported(Exception):
    """Raised for an operation that programs do not support, or that has no result."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


class ColumnArithmetic:
    """Arithmetic on numbers and columns; if all operands are numbers, so is the result.

    `name` is that of intermediate columns. `centred` shifts two columns, whose difference is computed, by a common
    number towards 0.
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
        """Return x / y, null where y is 0; raise Unsupported if y is the number 0."""
        if not isinstance(y, float):
            return self._apply("DIVIDE", _constant_column(y, x) if isinstance(x, float) else x, y)
        if not y:
            raise Unsupported("division by 0")
        return x / y if isinstance(x, float) else x.then("CENTER", 0.0, 1.0 / y)

    def power(self, x: Value, exponent: Value) -> Value:
        """Return x to the power of an integer constant.

        Raise Unsupported if the exponent is not an integer constant of absolute value 1 to `MOST_POWER`.
        """
        if not isinstance(exponent, float) or not exponent.is_integer() or not 1 <= abs(exponent) <= MOST_POWER:
            raise Unsupported(
                "this exponent is not supported", f"use an integer from 1 to {MOST_POWER}, or from -{MOST_POWER} to -1"
            )
        made = reduce(self.multiply, [x] * int(abs(exponent)))
        return made if exponent > 0 else self.divide(1.0, made)

    def clip(self, x: Value, low: float, high: float) -> Value:
        """Return x limited to [`low`, `high`]."""
        if low > high:
            raise Unsupported(f"the lower bound {low:g} is above the upper bound {high:g}")
        return min(max(x, low), high) if isinstance(x, float) else x.then("CLIP", low, high)

    def absolute(self, x: Value) -> Value:
        """Return the absolute value of x."""
        return self.add(self.clip(x, 0.0, INFINITE), self.clip(self.multiply(x, -1.0), 0.0, INFINITE))

    def log1p(self, x: Value) -> Value:
        """Return the logarithm of 1 + x; null where x is -1 or less."""
        if not isinstance(x, float):
            return x.then("LOG1P")
        if x <= -1:
            raise Unsupported(f"the logarithm of {1 + x:g} is undefined")
        return math.log1p(x)

    def log(self, x: Value) -> Value:
        """Return the logarithm of x; null where x is 0 or less.

        Computed as log(x) for x >= 1 and -log(1 / x) for x < 1, since log1p loses digits close to -1.
        """
        if isinstance(x, float):
            return self.log1p(x - 1.0)
        above = self.add(self.clip(x, 1.0, INFINITE), -1.0)
        below = self.add(self.divide(1.0, self.clip(x, -INFINITE, 1.0)), -1.0)
        return self.subtract(self.log1p(above), self.log1p(below))

    def fill(self, x: Value, value: float) -> Value:
        """Return x with nulls replaced by `value`."""
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
        """Return 1 minus a condition."""
        return self.subtract(1.0, condition)

    def all(self, conditions: Sequence[Value]) -> Value:
        """Return 1 where all conditions are 1, else 0."""
        return reduce(self.multiply, conditions)

    def any(self, conditions: Sequence[Value]) -> Value:
        """Return 1 where any condition is 1, else 0."""
        return self.negate(self.all([self.negate(condition) for condition in conditions]))

    def choose(self, condition: Value, x: Value, y: Value) -> Value:
        """Return x where a condition is 1 and y where it is 0; null where any of the three is null."""
        return self.add(self.multiply(condition, x), self.multiply(self.negate(condition), y))

    def least(self, x: Value, y: Value) -> Value:
        """Return the minimum of two values."""
        if isinstance(x, float):
            x, y = y, x
        return self.clip(x, -INFINITE, y) if isinstance(y, float) else self.choose(self.compare(ast.Lt, x, y), x, y)

    def greatest(self, x: Value, y: Value) -> Value:
        """Return the maximum of two values."""
        if isinstance(x, float):
            x, y = y, x
        return self.clip(x, y, INFINITE) if isinstance(y, float) else self.choose(self.compare(ast.Gt, x, y), x, y)

    def _apply(self, op: str, x: NumericExpr, y: NumericExpr) -> NumericExpr:
        if (n := max(count_registers(x), 1 + count_registers(y))) > N_REGISTERS:
            raise Unsupported(
                f"this needs {n} registers for intermediate results; a program has {N_REGISTERS}",
                "compute a part of it in an earlier expression",
            )
        return combine(self.name, op, (x, y))


def constant(value: float) -> float:
    """Return `value`; raise Unsupported if float32 cannot represent it: it is too large, or too close to 0."""
    low, high = FLOAT32
    if value and not low <= abs(value) <= high:
        raise Unsupported(f"the number {value:g} exceeds float32", f"use numbers between {low:.1e} and {high:.1e}")
    return value


def n_instructions(column: NumericExpr) -> int:
    """Return the number of instructions of a column, with an index counted as one."""
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


def _constant_column(column: NumericExpr, value: float) -> NumericExpr:
    """Return a constant column, computed from a source of `column` since programs have no constants."""
    while column.producer.operands:
        column = column.producer.operands[0]
    return replace(column, transforms=()).then("FILL", value).then("CLIP", value, value)

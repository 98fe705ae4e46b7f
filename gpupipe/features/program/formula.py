"""Parser of arithmetic expressions in text form, which are converted to `NumericExpr`.

The grammar is closed: numbers, columns, ``+ - * / **``, comparisons, ``and or not`` and the functions of `FUNCTIONS`.
Anything else is rejected with its position in the text. The text is parsed by `ast` and never executed.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import replace

from gpupipe.features.program.column_arithmetic import (
    COMPARISONS,
    ColumnArithmetic,
    Unsupported,
    Value,
    constant,
    n_instructions,
)
from gpupipe.features.program.expressions import NumericExpr, Producer

__all__ = ["FUNCTIONS", "Formula", "FormulaError"]

MOST_CHARACTERS = 1000
MOST_DEPTH = 100
MOST_INSTRUCTIONS = 256
NAMED = {
    ast.Mod: "the operator %", ast.FloorDiv: "the operator //", ast.MatMult: "the operator @",
    ast.BitAnd: "the operator & (write and)", ast.BitOr: "the operator | (write or)",
    ast.BitXor: "the operator ^ (write **)", ast.Invert: "the operator ~ (write not)",
    ast.LShift: "the operator <<", ast.RShift: "the operator >>",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
    ast.Subscript: "[ ]", ast.Lambda: "a lambda", ast.NamedExpr: ":=", ast.JoinedStr: "an f-string",
    ast.List: "a list", ast.Tuple: "a tuple", ast.Dict: "a dict", ast.Set: "a set",
    ast.ListComp: "a comprehension", ast.SetComp: "a comprehension", ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension", ast.Starred: "a starred argument",
}  # fmt: skip

FUNCTIONS = {
    "abs": "abs(x)",
    "clip": "clip(x, low, high)",
    "fillna": "fillna(x, number)",
    "isnull": "isnull(column)",
    "log": "log(x)",
    "log1p": "log1p(x)",
    "max": "max(x, y)",
    "min": "min(x, y)",
    "where": "where(condition, x, y)",
}
"""Signature of each function of an expression; ``low``, ``high`` and ``number`` are constants."""


class FormulaError(ValueError):
    """Raised if a text is not a valid expression; the message contains the position."""


class Formula:
    """A parsed expression in Python's syntax.

    Column names that are not identifiers are in backticks: ```monthly charges` / tenure``. Raise FormulaError if `text`
    is longer than `MOST_CHARACTERS`, or does not match the grammar.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MOST_CHARACTERS:
            raise FormulaError(f"the expression has {len(text):,} characters; at most {MOST_CHARACTERS:,}")
        self._source = _with_quoted_names(text)
        self._root = self._parsed()
        self.column("formula", _stand_in, _stand_in)

    def column(
        self,
        name: str,
        number: Callable[[str], NumericExpr],
        null: Callable[[str], NumericExpr],
        centred: Callable[[list[NumericExpr]], list[NumericExpr]] = lambda columns: columns,
    ) -> NumericExpr:
        """Return the column `name`, which the expression computes.

        `number` returns the numeric column with a given name; `null` returns the column that is 1 where the column with
        a given name is null, else 0; `centred` shifts two columns, whose difference is computed, by a common number
        towards 0. Raise FormulaError if the expression uses no column, or needs more instructions or registers than a
        program has.
        """
        made = _Translation(self, number, null, ColumnArithmetic(name, centred)).value(self._root, 0)
        if not isinstance(made, NumericExpr):
            raise FormulaError(f"{self._shown} uses no column: it is {made:g} in every row")
        # Any step may overflow. The column represents itself even if it is computed from a single column.
        return replace(made, name=name, root=name, may_be_null=True)

    def error(self, node: ast.AST, what: str, fix: str = "") -> FormulaError:
        """Return the error about a part of the expression."""
        offset = getattr(node, "col_offset", 0)
        character = len(self._source.encode()[:offset].decode(errors="ignore")) + 1
        return FormulaError(f"{what} (character {character} of {self._shown})" + (f"; {fix}" if fix else ""))

    @property
    def _shown(self) -> str:
        return repr(self.text if len(self.text) <= 80 else f"{self.text[:77]}...")

    def _parsed(self) -> ast.expr:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SyntaxWarning about style; errors are reported below
                return ast.parse(self._source, mode="eval").body
        except SyntaxError as error:
            at = f" at character {error.offset}" if error.offset else ""
            raise FormulaError(
                f"{self._shown} is not an expression{at}: {error.msg}; "
                "put names with spaces or symbols, and keywords, in backticks: `monthly charges`"
            ) from None
        except (RecursionError, MemoryError):
            raise FormulaError("the expression is nested too deeply") from None
        except ValueError as error:
            raise FormulaError(f"{self._shown} is not an expression: {error}") from None


def _stand_in(name: str) -> NumericExpr:
    return NumericExpr(name, (name,), Producer("LOAD", name))


def _with_quoted_names(text: str) -> str:
    """Replace names in backticks by Python strings, which also denote columns."""
    parts = re.compile(r"'[^']*'|\"[^\"]*\"|`([^`]+)`")
    return parts.sub(lambda found: repr(found[1]) if found[1] else found[0], text).replace("\n", " ").strip()


class _Translation:
    """Conversion of syntax nodes to numbers and expressions."""

    def __init__(
        self,
        formula: Formula,
        number: Callable[[str], NumericExpr],
        null: Callable[[str], NumericExpr],
        arithmetic: ColumnArithmetic,
    ) -> None:
        self.formula = formula
        self.number = number
        self.null = null
        self.arithmetic = arithmetic

    def value(self, node: ast.expr, depth: int) -> Value:
        """Return the value of a node: a number or an expression."""
        if depth > MOST_DEPTH:
            raise FormulaError(f"the expression is nested more than {MOST_DEPTH} deep")
        try:
            made = self._value(node, depth + 1)
            if isinstance(made, float):
                return constant(made)
            if (n := n_instructions(made)) > MOST_INSTRUCTIONS:
                raise Unsupported(f"this needs {n} instructions; at most {MOST_INSTRUCTIONS}", "split the expression")
        except OverflowError:
            raise self.formula.error(node, "the number exceeds float32", "use at most 3.4e38") from None
        except Unsupported as error:
            raise self.formula.error(node, error.what, error.fix) from None
        return made

    def _value(self, node: ast.expr, depth: int) -> Value:
        match node:
            case ast.Name():
                return self.number(node.id)
            case ast.Constant():
                return self._literal(node.value)
            case ast.UnaryOp():
                return self._unary(node, depth)
            case ast.BinOp():
                return self._binary(node, depth)
            case ast.BoolOp():
                conditions = [self._condition(each, depth) for each in node.values]
                return (self.arithmetic.all if isinstance(node.op, ast.And) else self.arithmetic.any)(conditions)
            case ast.Compare():
                return self._compared(node, depth)
            case ast.Call():
                return self._call(node, depth)
            case ast.Attribute():
                dotted = ast.unparse(node)
                raise Unsupported(f"{dotted!r} is not supported", f"put a column name in backticks: `{dotted}`")
            case ast.IfExp():
                raise Unsupported("if / else is not supported", "use where(condition, x, y)")
        raise _unsupported(node)

    def _literal(self, value: object) -> Value:
        if isinstance(value, str):
            return self.number(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unsupported(f"{value!r} is not a number", "write 0 or 1" if isinstance(value, bool) else "")
        return float(value)

    def _unary(self, node: ast.UnaryOp, depth: int) -> Value:
        match node.op:
            case ast.USub():
                return self.arithmetic.multiply(self.value(node.operand, depth), -1.0)
            case ast.UAdd():
                return self.value(node.operand, depth)
            case ast.Not():
                return self.arithmetic.negate(self._condition(node.operand, depth))
        raise _unsupported(node.op)

    def _binary(self, node: ast.BinOp, depth: int) -> Value:
        operations = {
            ast.Add: self.arithmetic.add,
            ast.Sub: self.arithmetic.subtract,
            ast.Mult: self.arithmetic.multiply,
            ast.Div: self.arithmetic.divide,
            ast.Pow: self.arithmetic.power,
        }
        if type(node.op) not in operations:
            raise _unsupported(node.op)
        return operations[type(node.op)](self.value(node.left, depth), self.value(node.right, depth))

    def _compared(self, node: ast.Compare, depth: int) -> Value:
        if other := next((op for op in node.ops if type(op) not in COMPARISONS), None):
            raise _unsupported(other)
        sides = [self.value(side, depth) for side in (node.left, *node.comparators)]
        pairs = zip(node.ops, sides, sides[1:], strict=False)
        return self.arithmetic.all([self.arithmetic.compare(type(op), x, y) for op, x, y in pairs])

    def _condition(self, node: ast.expr, depth: int) -> Value:
        """Return 1 where a value is not 0, else 0, as Python's truth value."""
        value = self.value(node, depth)
        is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        if is_not or isinstance(node, ast.Compare | ast.BoolOp):
            return value
        return self.arithmetic.compare(ast.NotEq, value, 0.0)

    def _call(self, node: ast.Call, depth: int) -> Value:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        usage = FUNCTIONS.get(name)
        if usage is None:
            raise Unsupported(f"the function {name!r} is not supported", f"use one of {', '.join(FUNCTIONS)}")
        if node.keywords or len(node.args) != usage.count(",") + 1:
            raise Unsupported(f"{name}: expected {usage}")
        arithmetic = self.arithmetic
        if name == "isnull":
            return self.null(_column_name(node.args[0], usage))
        if name == "where":
            condition = self._condition(node.args[0], depth)
            return arithmetic.choose(condition, *(self.value(argument, depth) for argument in node.args[1:]))
        values = [self.value(argument, depth) for argument in node.args]
        if name in ("clip", "fillna"):
            numbers = [value for value in values[1:] if isinstance(value, float)]
            if len(numbers) < len(values) - 1:
                raise Unsupported(f"in {usage}, all arguments except x must be numbers")
            return (arithmetic.clip if name == "clip" else arithmetic.fill)(values[0], *numbers)
        functions: dict[str, Callable[..., Value]] = {
            "abs": arithmetic.absolute,
            "log": arithmetic.log,
            "log1p": arithmetic.log1p,
            "max": arithmetic.greatest,
            "min": arithmetic.least,
        }
        return functions[name](*values)


def _column_name(node: ast.expr, usage: str) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise Unsupported(f"{usage} takes a column name")


def _unsupported(node: ast.AST) -> Unsupported:
    what = NAMED.get(type(node), type(node).__name__)
    return Unsupported(f"{what} is not supported", "use a custom kernel (kernel: {use: file.py:function})")

"""Parser of ``compute:`` formulas, such as ``Quantity * UnitPrice``.

A formula is a Python expression of column names, numbers, ``+ - * /``, signs and parentheses. Column names that are
not Python identifiers are quoted with backticks. `gpupipe.io.row_steps` evaluates the parsed formula.
"""

from __future__ import annotations

import ast
from functools import partial

from gpupipe.io.filter_expression import parse_expression, refuse_expression

MOST_NODES = 500  # evaluated by recursion
# Names of Arrow's compute functions.
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
}


def parse_formula(text: str) -> tuple[ast.expr, dict[str, str]]:
    """Return the syntax tree of a formula, and the column name for each name in it.

    Raise ConfigError if the text cannot be parsed, or has more than arithmetic over columns.

    Examples
    --------
    >>> sorted(parse_formula("Quantity * `Unit price`")[1].values())
    ['Quantity', 'Unit price']
    """
    tree, names = parse_expression(text, _refused)
    if sum(1 for _ in ast.walk(tree)) > MOST_NODES:
        raise _refused(text[:80], f"has more than {MOST_NODES} operators and operands", None)
    _check(tree, text)
    if not names:
        raise _refused(text, "uses no column", None)
    return tree, names


def formula_columns(text: str) -> tuple[str, ...]:
    """Return the columns that a formula reads."""
    return tuple(dict.fromkeys(parse_formula(text)[1].values()))


def _check(node: ast.expr, text: str) -> None:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        _check(node.left, text)
        _check(node.right, text)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        _check(node.operand, text)
    elif not (isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and type(node.value) in (int, float))):
        position = node.col_offset + 1 if "`" not in text else None
        raise _refused(text, f"expected columns, numbers and + - * /; found {ast.unparse(node)}", position)


_refused = partial(refuse_expression, "compute", "{spend: Quantity * UnitPrice}")

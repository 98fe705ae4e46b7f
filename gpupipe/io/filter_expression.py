"""The row filter of ``where:``, such as ``2.5 <= fare <= 100 and payment_type in ["Cash", "Credit Card"]``.

A safe part of Python's expressions: comparisons (chained ones too), ``in``, ``is None``, ``and``, ``or``, ``not``. A
name is a column; one that is no Python name is written in backticks: ```education-num` > 9``. A comparison with a
null is neither true nor false, and a row is kept only where the whole is true. Here it is parsed and checked, without
any library, so that ``gpupipe check`` can do it; `gpupipe.io.filter` applies it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import partial

from gpupipe.errors import ConfigError

BACKTICKS = re.compile(r"`([^`]+)`")
# As Arrow's functions are called, and NumPy's.
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}


def parse_where(text: str) -> tuple[ast.expr, dict[str, str]]:
    """Return the expression, and the column that each of its names means.

    Raises
    ------
    ConfigError
        If it is no expression, or one with more in it than a filter may have; the message has the position.
    """
    tree, names = parse_expression(text, _refused)
    try:
        _check_condition(tree, text)
    except RecursionError:
        raise _refused(text[:80], "is nested too deeply", None) from None
    return tree, names


def parse_expression(
    text: str, refused: Callable[[str, str, int | None], ConfigError]
) -> tuple[ast.expr, dict[str, str]]:
    """Return the syntax tree of a Python expression over columns, and the column that each of its names stands for.

    Parameters
    ----------
    text : str
        Names that are not Python identifiers are written in backticks.
    refused : callable
        Makes the error of a text that is not an expression, from the text, the reason and the position.

    Raises
    ------
    ConfigError
        If `text` is not an expression.
    """
    quoted = dict.fromkeys(BACKTICKS.findall(text))
    stand_ins = {name: f"column_{i}_in_backticks" for i, name in enumerate(quoted)}
    code = BACKTICKS.sub(lambda match: stand_ins[match[1]], text)
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except (RecursionError, MemoryError):
        raise refused(text[:80], "is nested too deeply", None) from None
    except (SyntaxError, ValueError) as error:
        position = getattr(error, "offset", None)
        raise refused(text, f"cannot be parsed: {getattr(error, 'msg', error)}", position) from None
    names = {node.id: node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names.update({stand_in: name for name, stand_in in stand_ins.items() if stand_in in names})
    return tree, names


def columns_of(text: str | None) -> tuple[str, ...]:
    """Return the columns that a filter needs."""
    return () if text is None else tuple(dict.fromkeys(parse_where(text)[1].values()))


def refuse_expression(section: str, example: str, text: str, why: str, position: int | None) -> ConfigError:
    """Return the error of a text that is not an expression of its section of the configuration."""
    where = f"{text}\n         {' ' * max((position or 1) - 1, 0)}^ column {position}" if position else text
    return ConfigError(f"{section}: {why}", where=where, fix=f"write it as in {section}: {example}")


_refused = partial(refuse_expression, "where", '"2.5 <= fare <= 100 and miles > 0"')


def _check_condition(node: ast.expr, text: str) -> None:
    position = node.col_offset + 1 if "`" not in text else None
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            _check_condition(value, text)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _check_condition(node.operand, text)
    elif isinstance(node, ast.Compare):
        for left, operator, right in links(node):
            _check_comparison(left, operator, right, text)
    elif not isinstance(node, ast.Name):
        raise _refused(text, f"{ast.unparse(node)} is no condition", position)


def _check_comparison(left: ast.expr, operator: ast.cmpop, right: ast.expr, text: str) -> None:
    position = left.col_offset + 1 if "`" not in text else None
    if isinstance(operator, ast.Is | ast.IsNot):
        if not (isinstance(left, ast.Name) and isinstance(right, ast.Constant) and right.value is None):
            raise _refused(text, "'is' works with None only", position)
    elif isinstance(operator, ast.In | ast.NotIn):
        listed = isinstance(right, ast.List | ast.Tuple | ast.Set) and all(_is_value(item) for item in right.elts)
        if not (isinstance(left, ast.Name) and listed):
            raise _refused(text, "'in' works with a column and a list of values", position)
    elif not all(isinstance(side, ast.Name) or _is_value(side) for side in (left, right)):
        raise _refused(text, f"{ast.unparse(left)}, {ast.unparse(right)}: columns and values only", position)
    elif isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        raise _refused(text, "a comparison needs a column", position)


def links(node: ast.Compare) -> list[tuple[ast.expr, ast.cmpop, ast.expr]]:
    """Return the links of a chained comparison: ``a < b < c`` is ``a < b`` and ``b < c``."""
    return list(zip([node.left, *node.comparators], node.ops, node.comparators, strict=False))


def _is_value(node: ast.expr) -> bool:
    try:
        return isinstance(ast.literal_eval(node), bool | int | float | str)
    except (ValueError, TypeError):
        return False

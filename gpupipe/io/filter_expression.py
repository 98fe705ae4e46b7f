"""Parser of ``where:`` row filters such as ``2.5 <= fare <= 100 and payment_type in ["Cash", "Credit Card"]``.

The language is a safe subset of Python expressions: comparisons (also chained), ``in``, ``is None``, ``and``, ``or``
and ``not``. A name is a column; quote other column names with backticks: ```education-num` > 9``. A comparison with
null is null, and only rows for which the filter is true are kept. Parsing imports no library, so ``gpupipe check``
stays fast; `gpupipe.io.filter` applies the filter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import partial

from gpupipe.errors import ConfigError

BACKTICKS = re.compile(r"`([^`]+)`")
# Names of Arrow's compute functions and of NumPy's ufuncs.
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
}


def parse_where(text: str) -> tuple[ast.expr, dict[str, str]]:
    """Return the syntax tree of a filter, and the column name for each name in it.

    Raise ConfigError if it is not an expression, or uses syntax that filters do not support; the message shows the
    position.
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
    """Return the syntax tree of a Python expression over columns, and the column name for each name in it.

    Column names that are not Python identifiers are quoted with backticks. `refused` returns the error to raise, from
    the text, the reason and the position. Raise ConfigError if `text` is not an expression.
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
    """Return the columns that a filter uses."""
    return () if text is None else tuple(dict.fromkeys(parse_where(text)[1].values()))


def refuse_expression(section: str, example: str, text: str, why: str, position: int | None) -> ConfigError:
    """Return the error for a text that is not a valid expression in its configuration section."""
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
        raise _refused(text, f"expected a condition, found {ast.unparse(node)}", position)


def _check_comparison(left: ast.expr, operator: ast.cmpop, right: ast.expr, text: str) -> None:
    position = left.col_offset + 1 if "`" not in text else None
    if isinstance(operator, ast.Is | ast.IsNot):
        if not (isinstance(left, ast.Name) and isinstance(right, ast.Constant) and right.value is None):
            raise _refused(text, "'is' compares a column with None only", position)
    elif isinstance(operator, ast.In | ast.NotIn):
        listed = isinstance(right, ast.List | ast.Tuple | ast.Set) and all(_is_value(item) for item in right.elts)
        if not (isinstance(left, ast.Name) and listed):
            raise _refused(text, "'in' takes a column and a list of values", position)
    elif not all(isinstance(side, ast.Name) or _is_value(side) for side in (left, right)):
        raise _refused(text, f"{ast.unparse(left)}, {ast.unparse(right)}: expected columns and values", position)
    elif isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        raise _refused(text, "a comparison needs a column", position)


def links(node: ast.Compare) -> list[tuple[ast.expr, ast.cmpop, ast.expr]]:
    """Return the pairwise comparisons of a chain: ``a < b < c`` is ``a < b`` and ``b < c``."""
    return list(zip([node.left, *node.comparators], node.ops, node.comparators, strict=False))


def _is_value(node: ast.expr) -> bool:
    try:
        return isinstance(ast.literal_eval(node), bool | int | float | str)
    except (ValueError, TypeError):
        return False

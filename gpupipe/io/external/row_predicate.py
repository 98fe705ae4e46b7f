"""Conditions on single columns that a ``where:`` filter implies, for sources that skip rows and files by them.

Such a source may return more rows than pass the filter, because the filter is applied to its rows again, but never
fewer. Only conditions are used that mean the same everywhere: integers with integers, float64 with finite numbers and
text with text. Nulls and NaN pass none of the comparisons here; text that means missing fails them after reading.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.io.arrow_types import is_text
from gpupipe.io.filter_expression import links, parse_where
from gpupipe.io.settings import JoinedTable, TableSource

Operator = Literal["<", "<=", ">", ">=", "=", "not null"]
OPERATORS: dict[type[ast.cmpop], Operator] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "="}
FUNCTIONS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "=": "equal"}  # of Arrow
FLIPPED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
EXACT_FLOAT = 2**53  # all integers up to this are float64 values


@dataclass(frozen=True)
class ColumnCondition:
    """Comparison of a column with a value, or the condition that it is not null."""

    column: str
    operator: Operator
    value: int | float | str | None = None


@dataclass(frozen=True)
class JointCondition:
    """Conditions that all hold, or of which one holds."""

    name: Literal["and", "or"]
    parts: tuple[Condition, ...]


Condition = ColumnCondition | JointCondition


def implied_condition(source: TableSource, schema: pa.Schema) -> Condition | None:
    """Return a condition that all rows which pass ``where:`` fulfil; None if there is none on the columns of `schema`.

    There is none if the rows are changed before the filter, by ``prepare:`` or ``compute:``.
    """
    if source.where is None or source.prepare is not None or (isinstance(source, JoinedTable) and source.compute):
        return None
    tree, names = parse_where(source.where)
    kinds = {field.name: kind for field in schema if (kind := _kind(field.type)) is not None}
    found = _implied(tree, {name: column for name, column in names.items() if column in kinds}, kinds)
    return found if found is None or not source.strips_typed_files else _of_padded(found)


def _of_padded(condition: Condition) -> Condition | None:
    """Return what a condition on stripped texts implies for the texts as stored, which may have blanks around them.

    A text that starts with a blank is less than "!" or, outside ASCII, greater than "~"; blanks at its end keep a text
    greater than another one.
    """
    if isinstance(condition, JointCondition):
        found = [_of_padded(part) for part in condition.parts]
        return None if condition.name == "or" and None in found else _joint(condition.name, found)
    column, value = condition.column, condition.value
    if not isinstance(value, str):
        return condition
    if condition.operator in ("<", "<=") or not value:
        return None
    longer = ColumnCondition(column, "<", value[:-1] + chr(ord(value[-1]) + 1)) if ord(value[-1]) < ord("~") else None
    least = ColumnCondition(column, ">=" if condition.operator == "=" else condition.operator, value)
    plain = _joint("and", [least, longer if condition.operator == "=" else None])
    return _joint("or", [plain, ColumnCondition(column, "<", "!"), ColumnCondition(column, ">", "~")])


def _kind(kind: pa.DataType) -> type[Any] | None:
    """Return the Python type of the values that a column can be compared with exactly."""
    if pa.types.is_signed_integer(kind):
        return int
    if pa.types.is_float64(kind):
        return float
    return str if is_text(kind) else None


def _implied(node: ast.expr, names: Mapping[str, str], kinds: Mapping[str, type[Any]]) -> Condition | None:
    if isinstance(node, ast.BoolOp):
        found = [_implied(value, names, kinds) for value in node.values]
        if isinstance(node.op, ast.Or):
            return None if None in found else _joint("or", found)
        return _joint("and", found)
    if isinstance(node, ast.Compare):
        return _joint("and", [_link(*link, names, kinds) for link in links(node)])
    return None  # `not`: the opposite of an implied condition is not implied


def _joint(name: Literal["and", "or"], found: Sequence[Condition | None]) -> Condition | None:
    parts = tuple(part for part in found if part is not None)
    return JointCondition(name, parts) if len(parts) > 1 else parts[0] if parts else None


def _link(
    left: ast.expr, operator: ast.cmpop, right: ast.expr, names: Mapping[str, str], kinds: Mapping[str, type[Any]]
) -> Condition | None:
    if not isinstance(left, ast.Name):
        known = OPERATORS.get(type(operator))
        return _comparison(right, None if known is None else FLIPPED[known], left, names, kinds)
    if isinstance(operator, ast.IsNot):
        return ColumnCondition(names[left.id], "not null") if left.id in names else None
    if isinstance(operator, ast.In):
        assert isinstance(right, ast.List | ast.Tuple | ast.Set)
        found = [_comparison(left, "=", item, names, kinds) for item in right.elts]
        return None if None in found else _joint("or", found)
    return _comparison(left, OPERATORS.get(type(operator)), right, names, kinds)


def _comparison(
    column: ast.expr,
    operator: Operator | None,
    value: ast.expr,
    names: Mapping[str, str],
    kinds: Mapping[str, type[Any]],
) -> ColumnCondition | None:
    if operator is None or not isinstance(column, ast.Name) or column.id not in names or isinstance(value, ast.Name):
        return None
    name = names[column.id]
    exact = _exact(ast.literal_eval(value), kinds[name])
    return None if exact is None else ColumnCondition(name, operator, exact)


def _exact(value: Any, kind: type[Any]) -> int | float | str | None:
    """Return a value as one of the column's type, None if it is not exactly one."""
    if isinstance(value, bool):
        return None
    if kind is int:
        return value if isinstance(value, int) and -(2**31) <= value < 2**31 else None  # columns may be int32
    if kind is float:
        is_exact = isinstance(value, float | int) and math.isfinite(value)
        return float(value) if is_exact and (isinstance(value, float) or abs(value) <= EXACT_FLOAT) else None
    return value if isinstance(value, str) and value.isprintable() else None


def to_sql(condition: Condition, quoted: Callable[[str], str]) -> str:
    """Return a condition in SQL; `quoted` quotes the name of a column."""
    if isinstance(condition, JointCondition):
        return f" {condition.name.upper()} ".join(f"({to_sql(part, quoted)})" for part in condition.parts)
    column, value = quoted(condition.column), condition.value
    if condition.operator == "not null":
        return f"{column} IS NOT NULL"
    text = "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)
    return f"{column} {condition.operator} {text}"


def select_rows(table: pa.Table, condition: Condition) -> pa.Table:
    """Return the rows of a table that fulfil a condition."""
    return table.filter(_mask(table, condition))


def _mask(table: pa.Table, condition: Condition) -> pa.ChunkedArray:
    if isinstance(condition, JointCondition):
        masks = [_mask(table, part) for part in condition.parts]
        return reduce(pc.and_kleene if condition.name == "and" else pc.or_kleene, masks)
    column = table.column(condition.column)
    if condition.operator == "not null":
        return column.is_valid()
    return pc.call_function(FUNCTIONS[condition.operator], [column, pa.scalar(condition.value)])

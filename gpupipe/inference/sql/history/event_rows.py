"""Event tables in SQL: their rows after ``compute:``, ``where:`` and ``group_by:``, as in `gpupipe.io.row_steps`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from gpupipe.inference.sql.dialect import Expr, SqlDialect, all_of, case, integer, is_null, number, text
from gpupipe.io.compute_formula import parse_formula
from gpupipe.io.event_settings import ROWS
from gpupipe.io.filter_expression import links, parse_where
from gpupipe.io.row_steps import raw_columns
from gpupipe.units import parse_time_us

if TYPE_CHECKING:
    from gpupipe.io.settings import JoinedTable

ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], type[exp.Binary]] = {
    ast.Lt: exp.LT, ast.LtE: exp.LTE, ast.Gt: exp.GT, ast.GtE: exp.GTE, ast.Eq: exp.EQ, ast.NotEq: exp.NEQ,
}  # fmt: skip
AGGREGATES: dict[str, type[exp.AggFunc]] = {"sum": exp.Sum, "mean": exp.Avg, "min": exp.Min, "max": exp.Max}


def refused_steps(name: str, settings: JoinedTable, dialect: SqlDialect) -> Iterator[str]:
    """Yield what a dialect cannot express of the settings of an event table."""
    if settings.group_by is not None:
        for column, function in settings.group_by.made().values():
            if function in ("first", "last"):
                yield f"group_by of table {name}: {function} of {column}, since rows have no order in a database"
    if settings.where and dialect.is_sqlite and any(map(is_time, _literals(settings.where))):
        yield f"where of table {name}, which compares a time: times are texts in SQLite"


def _literals(where: str) -> list[Any]:
    return [node.value for node in ast.walk(parse_where(where)[0]) if isinstance(node, ast.Constant)]


def is_time(value: Any) -> bool:
    """Return whether a value of a filter is a text that writes a time."""
    with suppress(ValueError):
        return isinstance(value, str) and parse_time_us(value) is not None
    return False


def event_rows(settings: JoinedTable, source: exp.Table, columns: Sequence[str], dialect: SqlDialect) -> exp.Select:
    """Return the query of some columns of an event table after its steps.

    `where` compares texts, and numbers that are NaN, as the database does.
    """
    made: dict[str, Expr] = {name: raw_column(name) for name in raw_columns(settings, columns)}
    for name, formula in settings.compute.items():
        made[name] = _formula(*parse_formula(formula), made, dialect)
    by = settings.group_by
    wanted: dict[str, Expr] = {name: made[name] for name in columns} if by is None else {}
    if by is not None:
        wanted = {name: made[name] for name in by.keys}
        results = by.made()
        wanted |= {name: _aggregate(*results[name], made, dialect) for name in columns if name in results}
    aliased = [exp.alias_(found.copy(), name, quoted=True) for name, found in wanted.items()]
    query = exp.Select(expressions=aliased).from_(source, copy=False)
    if settings.where:
        query = query.where(_condition(*parse_where(settings.where), made), copy=False)
    return query if by is None else query.group_by(*(made[name].copy() for name in by.keys), copy=False)


def raw_column(name: str, table: str | None = None) -> exp.Column:
    """Return a column by its name, quoted."""
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def _formula(node: ast.expr, names: Mapping[str, str], made: Mapping[str, Expr], dialect: SqlDialect) -> Expr:
    if isinstance(node, ast.BinOp):
        x, y = (_formula(each, names, made, dialect) for each in (node.left, node.right))
        if isinstance(node.op, ast.Div):
            return case([(exp.NEQ(this=exp.Paren(this=y), expression=number(0.0)), dialect.divide(x, y.copy()))], None)
        found: Expr = ARITHMETIC[type(node.op)](x, y)
        return found
    if isinstance(node, ast.UnaryOp):
        x = _formula(node.operand, names, made, dialect)
        return exp.Neg(this=exp.Paren(this=x)) if isinstance(node.op, ast.USub) else x
    if isinstance(node, ast.Name):
        return dialect.cast(made[names[node.id]].copy(), "double")
    return dialect.double(float(ast.literal_eval(node)))


def _aggregate(column: str, function: str, made: Mapping[str, Expr], dialect: SqlDialect) -> Expr:
    if column == ROWS:
        return exp.Count(this=exp.Star())
    x = made[column].copy()
    if function in ("count", "nunique"):
        return exp.Count(this=x if function == "count" else exp.Distinct(expressions=[x]))
    return AGGREGATES[function](this=dialect.cast(x, "double") if function in ("sum", "mean") else x)


def _condition(node: ast.expr, names: Mapping[str, str], made: Mapping[str, Expr]) -> Expr:
    if isinstance(node, ast.BoolOp):
        parts = [_condition(value, names, made) for value in node.values]
        return exp.Paren(this=exp.and_(*parts) if isinstance(node.op, ast.And) else exp.or_(*parts))
    if isinstance(node, ast.UnaryOp):
        return exp.Not(this=exp.Paren(this=_condition(node.operand, names, made)))
    if isinstance(node, ast.Compare):
        return exp.Paren(this=all_of([_comparison(*link, names, made) for link in links(node)]))
    return _operand(node, names, made)


def _comparison(
    left: ast.expr, comparison: ast.cmpop, right: ast.expr, names: Mapping[str, str], made: Mapping[str, Expr]
) -> Expr:
    x = _operand(left, names, made)
    if isinstance(comparison, ast.Is | ast.IsNot):
        return is_null(x) if isinstance(comparison, ast.Is) else exp.Not(this=is_null(x))
    if isinstance(comparison, ast.In | ast.NotIn):
        assert isinstance(right, ast.List | ast.Tuple | ast.Set)
        found = exp.In(this=x, expressions=[_operand(item, names, made) for item in right.elts])
        return found if isinstance(comparison, ast.In) else exp.Not(this=found)
    return COMPARISONS[type(comparison)](this=x, expression=_operand(right, names, made))


def _operand(node: ast.expr, names: Mapping[str, str], made: Mapping[str, Expr]) -> Expr:
    if isinstance(node, ast.Name):
        return exp.Paren(this=made[names[node.id]].copy())
    value = ast.literal_eval(node)
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    return text(value) if isinstance(value, str) else integer(value) if isinstance(value, int) else number(value)

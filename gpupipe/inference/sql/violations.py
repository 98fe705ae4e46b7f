"""Rules of a model in SQL: which ones a row violates, as one text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from sqlglot import exp

from gpupipe.inference.sql.dialect import Expr, case, integer, is_in, is_null, number, text
from gpupipe.inference.sql.inputs import SqlInput, level_number, level_text, number_value, time_value
from gpupipe.rules.labels import integer_bounds, to_level, to_numbers
from gpupipe.rules.settings import ColumnRules, to_micros
from gpupipe.table.schema import TEXT_KINDS, Column, Kind

if TYPE_CHECKING:
    from gpupipe.inference.sql.query import SqlQuery
    from gpupipe.rules.model_rules import ServedRules

COLUMN = "violated_rules"
BETWEEN = "; "


def write_violations(
    query: SqlQuery, inputs: Sequence[SqlInput], served: Sequence[ServedRules]
) -> tuple[Expr, list[str]]:
    """Return the rules that a row violates, as a text that is null if there are none, and the rules that it omits.

    Numbers are compared as float64, as in the scorer. Omitted are rules of columns that the query does not read,
    `regex` and `unique`.
    """
    by_column = {each.column.source: each for each in inputs}
    found: list[Expr] = []
    omitted: list[str] = []
    for each in served:
        own = by_column.get(each.column)
        cell = None if own is None else RuledInput.of(query, own, each.declared.kind)
        for rule in each.rules.names:
            word = f"{each.column}: {each.rules.text(rule)}"
            if cell is None or rule not in cell.rules or not each.rules.is_for(each.declared.kind):
                omitted.append(f"rule {word}")
            elif conditions := list(cell.violations(rule, each.rules)):
                is_violated = reduce(lambda a, b: exp.Or(this=a, expression=b), conditions)
                found.append(query.define(case([(is_violated, text(BETWEEN + word))], text(""))))
    if not found:
        return query.dialect.cast(exp.Null(), "text"), omitted
    joined = query.define(reduce(lambda a, b: exp.DPipe(this=a, expression=b), found))
    first = exp.Substring(this=joined.copy(), start=integer(len(BETWEEN) + 1))
    return case([(exp.NEQ(this=joined, expression=text("")), first)], None), omitted


@dataclass(frozen=True)
class RuledInput:
    """A column with rules: its value, whether it is missing, and the names of the rules that are conditions on it."""

    column: Column
    kind: Kind  # in training
    x: Expr
    is_missing: Expr
    rules: tuple[str, ...]
    is_text: bool = False

    @staticmethod
    def of(query: SqlQuery, own: SqlInput, kind: Kind) -> RuledInput | None:
        """Return the input of a column of `kind` in training, or None if no rule is a condition on it."""
        if kind == "datetime" and own.column.kind == kind:
            x: Expr = query.define(time_value(query, own))
            return RuledInput(own.column, kind, x, is_null(x), ("nulls", "range"))
        if kind == "numeric" and own.type == "number":
            x = query.define(number_value(query, own.column))
            return RuledInput(own.column, kind, x, is_null(x), ("dtype", "nulls", "range", "set"))
        if kind in TEXT_KINDS and own.column.kind in TEXT_KINDS and own.type in ("number", "text"):
            is_text = own.type == "text"
            x, is_missing = (level_text if is_text else level_number)(query, own.column)
            return RuledInput(own.column, kind, x, is_missing, ("nulls", "set"), is_text)
        if own.type == "boolean":
            x = query.define(query.raw(own.column.source))
            return RuledInput(own.column, kind, x, is_null(x), ("nulls",))
        return None

    def violations(self, rule: str, rules: ColumnRules) -> Iterator[Expr]:
        """Yield the conditions of which one holds where a value violates a rule; none holds for a missing value."""
        if rule == "nulls":
            yield self.is_missing.copy()
        elif rule == "set":
            is_allowed = exp.Or(this=self.is_missing.copy(), expression=is_in(self.x.copy(), self._allowed(rules)))
            yield exp.Not(this=exp.Paren(this=is_allowed))
        elif self.kind == "datetime":
            micros = [to_micros(each) if isinstance(each, str) else None for each in rules.range or ()]
            yield from self._outside([None if each is None else integer(each) for each in micros])
        else:
            bounds = rules.range if rule == "range" else integer_bounds(rules.dtype)
            yield from self._outside([number(each) if _is_finite(each) else None for each in bounds or ()])
            if rule == "dtype" and bounds is not None:
                yield exp.NEQ(this=exp.Anonymous(this="FLOOR", expressions=[self.x.copy()]), expression=self.x.copy())

    def _allowed(self, rules: ColumnRules) -> list[Expr]:
        labels = rules.set or ()
        if self.is_text:
            return [text(each) for each in sorted({to_level(label, self.kind) for label in labels})]
        is_single = self.kind != "numeric" and self.column.dtype == "float"
        return [number(float(np.float32(each)) if is_single else each) for each in sorted(to_numbers(labels))]

    def _outside(self, bounds: Sequence[Expr | None]) -> Iterator[Expr]:
        for node, bound in zip((exp.LT, exp.GT), bounds, strict=False):
            if bound is not None:
                yield node(this=self.x.copy(), expression=bound)


def _is_finite(bound: object) -> TypeGuard[float]:
    return isinstance(bound, float) and math.isfinite(bound)

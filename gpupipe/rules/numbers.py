"""Rule checks of numeric and datetime columns, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.errors import SchemaError
from gpupipe.rules.labels import EXACT, integer_bounds, to_numbers
from gpupipe.rules.predicate import RulePredicate
from gpupipe.rules.settings import ColumnRules, to_micros
from gpupipe.rules.violation import format_time
from gpupipe.table.blocks import Table
from gpupipe.table.schema import NAT, Column
from gpupipe.typing import Array


@dataclass(frozen=True, eq=False)
class NumberChecker:
    """Checker of a column of numbers or times.

    `values` are those of the encoded table, float32, float64 or int64, shape (n_rows,): NaN or `NAT` is null.
    """

    column: Column
    values: Array
    backend: Backend

    @classmethod
    def of(cls, table: Table, name: str, backend: Backend) -> NumberChecker:
        """Return the checker of a column of a table."""
        return cls(table.schema[name], table.column(name), backend)

    def __len__(self) -> int:
        return len(self.values)

    def predicates(self, rules: ColumnRules, given: Sequence[str]) -> list[RulePredicate]:
        """Return the predicates of the rules `given`."""
        made: dict[str, Callable[[ColumnRules], list[RulePredicate]]] = {
            "dtype": self._dtype,
            "nulls": lambda rules: [self._predicate(rules.text("nulls"), self._is_null)],
            "range": lambda rules: [self._between(rules.text("range"), *self._bounds(rules))],
            "set": self._set,
            "unique": self._unique,
        }
        return list(chain.from_iterable(made[rule](rules) for rule in given))

    def kind_predicate(self, rules: ColumnRules) -> RulePredicate:
        """Return the predicate of values that are not of the kind of the rules; for booleans, all except 0 and 1."""
        rule, detail = rules.text("dtype" if rules.dtype else "range"), f"the column is {self.column.kind}"
        if rules.kind == "boolean" and self.column.kind == "numeric":
            predicate = self._predicate(rule, lambda v: (v == v) & (v != 0) & (v != 1))
            detail += "; only 0 and 1 can be read as boolean"
        else:
            predicate = self._predicate(rule, lambda v: ~self._is_null(v))
        return RulePredicate(rule, predicate.against, detail=detail, is_of_column=True)

    def shown(self, rows: Sequence[int]) -> list[str]:
        """Return the values of some rows as text."""
        found = self.backend.to_host(self.values[self.backend.to_device(np.array(rows))])
        if self.column.kind == "datetime":
            return ["null" if v == NAT else format_time(v) for v in found.tolist()]
        # A float32 is formatted as such: 0.1, not its float64 digits.
        return ["null" if v != v else f"{v:.0f}" if v.is_integer() and abs(v) < 1e15 else str(v) for v in found]

    def _predicate(self, rule: str, against: Callable[[Array], Array], **more: Any) -> RulePredicate:
        return RulePredicate(rule, lambda start, stop: against(self.values[start:stop]), **more)

    def _is_null(self, values: Array) -> Array:
        is_null: Array = values == NAT if self.column.kind == "datetime" else values != values
        return is_null

    def _dtype(self, rules: ColumnRules) -> list[RulePredicate]:
        """Return the predicate of an integer dtype: values are whole numbers within its bounds."""
        xp, bounds = self.backend.xp, integer_bounds(rules.dtype)
        if bounds is None:
            return []
        rule = rules.text("dtype")
        low, high = bounds
        return [self._predicate(rule, lambda v: (v == v) & ((xp.floor(v) != v) | (v < low) | (v > high)))]

    def _bounds(self, rules: ColumnRules) -> tuple[Any, Any]:
        low, high = (to_micros(b) if isinstance(b, str) else b for b in rules.range or (None, None))
        if self.column.kind == "datetime":
            return (NAT + 1 if low is None else low), (2**63 - 1 if high is None else high)
        low, high = (-math.inf if low is None else low), (math.inf if high is None else high)
        if self.values.dtype == np.float32 and self.column.dtype.startswith(("int", "uint")):
            # Integers: rounding the bound to float32 could accept a neighbour or reject the bound itself.
            return _rounded(low, math.inf), _rounded(high, -math.inf)
        return low, high

    def _between(self, rule: str, low: Any, high: Any) -> RulePredicate:
        with np.errstate(over="ignore"):
            bounds = self.values.dtype.type(low), self.values.dtype.type(high)  # compared in the dtype of the column
        if self.column.kind == "datetime":
            return self._predicate(
                rule, lambda v: ((v < bounds[0]) & (v != NAT)) | (v > bounds[1]), extremes=self._extremes
            )
        return self._predicate(rule, lambda v: (v < bounds[0]) | (v > bounds[1]), extremes=self._extremes)

    def _extremes(self) -> tuple[Any, Any]:
        """Return the minimum and maximum of the column, which has values."""
        xp, to_host = self.backend.xp, self.backend.to_host
        known = self.values[~self._is_null(self.values)]
        low, high = to_host(xp.stack([known.min(), known.max()])).tolist()
        return low, high

    def _set(self, rules: ColumnRules) -> list[RulePredicate]:
        xp = self.backend.xp
        with np.errstate(over="ignore"):
            allowed = self.backend.to_device(np.array(sorted(to_numbers(rules.set or ())), self.values.dtype))
        return [self._predicate(rules.text("set"), lambda v: (v == v) & ~xp.isin(v, allowed))]

    def _unique(self, rules: ColumnRules) -> list[RulePredicate]:
        xp = self.backend.xp
        known = xp.sort(self.values[~self._is_null(self.values)])
        repeated = xp.unique(known[1:][known[1:] == known[:-1]])
        if not len(repeated):
            return []
        if self.column.kind == "numeric" and not self.column.dtype.startswith(("float", "double")):
            self._require_exact(repeated)
        return [self._predicate(rules.text("unique"), lambda v: xp.isin(v, repeated))]

    def _require_exact(self, repeated: Array) -> None:
        if float(self.backend.to_host(abs(repeated).max())) >= EXACT:
            name = self.column.name
            raise SchemaError(
                f"cannot check that {name!r} is unique: integers above 2^53 are rounded to float64",
                where=f"data.{name}.unique",
                fix=f"read the column as text: source: {{schema: {{{name}: text}}}}",
                names=[name],
            )


def _rounded(bound: float, towards: float) -> float:
    """Return the float32 nearest to a bound in direction `towards`, so that comparisons of integers stay exact."""
    with np.errstate(over="ignore"):
        single = np.float32(bound)
    off = float(single) < bound if towards > 0 else float(single) > bound
    return float(np.nextafter(single, np.float32(towards))) if off else float(single)

"""Check an encoded table against the data rules of its columns.

Text and categories are checked by their distinct values; rows are searched only if a value violates a rule. Numbers
and times are checked in blocks. No column is copied, except that ``unique`` sorts numeric columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import chain
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.errors import ConfigError
from gpupipe.rules.levels import LevelChecker
from gpupipe.rules.numbers import NumberChecker
from gpupipe.rules.predicate import RulePredicate, block_rows
from gpupipe.rules.settings import ColumnRules
from gpupipe.rules.violation import ROWS_SHOWN, RuleViolation
from gpupipe.table.blocks import Table
from gpupipe.typing import Array

Rules = Mapping[str, Sequence[ColumnRules]]


@dataclass(frozen=True, eq=False)
class ViolatingCells:
    """Cells of a column that violate one of its rules.

    `rule` is in YAML: ``"range: [0, 100]"``. `rows` is the mask of the violating rows: bool, shape (n_rows,), on the
    host.
    """

    column: str
    rule: str
    rows: Array


@singledispatch
def find_violations(table: Any, rules: Rules, backend: Backend) -> list[RuleViolation]:
    """Return the rule violations of a table, in the order of `rules`.

    `table` is a `Table` in the memory of `backend`, with text columns as Arrow arrays on the host, or a
    `PartitionedTable`. It must have each column of `rules`. Raise ConfigError if a rule does not apply to columns of
    that kind, and SchemaError if ``unique`` cannot be checked, because float64 does not distinguish the integers of the
    column.
    """
    pairs: list[tuple[str, ColumnRules]] = []
    for name, of_column in rules.items():
        pairs += [(name, each) for each in of_column]
    found = backend.map(lambda pair: _violations(table, *pair, backend), pairs)
    return list(chain.from_iterable(found))


def find_violating_cells(table: Table, rules: Rules, backend: Backend) -> list[ViolatingCells]:
    """Return all cells that violate a rule without ``otherwise: warn``; parameters and errors as `find_violations`."""
    found = []
    for name, given in rules.items():
        for each in given:
            if each.otherwise == "warn":
                continue
            values, predicates = _predicates(table, name, each, backend)
            for predicate in predicates:
                mask = _mask(predicate, len(values), values.backend)
                if mask.any():
                    found.append(ViolatingCells(name, predicate.rule, mask))
    return found


def _mask(predicate: RulePredicate, n_rows: int, backend: Backend) -> Array:
    step = block_rows(backend)
    parts = [predicate.against(start, min(n_rows, start + step)) for start in range(0, n_rows, step)]
    return backend.to_host(backend.xp.concatenate(parts)) if parts else np.zeros(0, bool)


def _violations(table: Table, name: str, rules: ColumnRules, backend: Backend) -> list[RuleViolation]:
    values, predicates = _predicates(table, name, rules, backend)
    found = ((predicate, *_rows(predicate, len(values), values.backend)) for predicate in predicates)
    return [_violation(name, values, rules, *each) for each in found if each[1] or each[0].is_of_column]


def _predicates(
    table: Table, name: str, rules: ColumnRules, backend: Backend
) -> tuple[LevelChecker | NumberChecker, list[RulePredicate]]:
    """Return the checker of a column, and its rules as predicates."""
    column = table.schema[name]
    if column.kind == "list":
        fix = f"exclude it: !{name}, or state rules of the columns that list_stats derives"
        raise ConfigError(
            f"column {name!r} has lists; rules apply to single values", where="data", fix=fix, names=[name]
        )
    given = rules.checks_of(name, column.kind)
    kind: Any = LevelChecker if column.levels is not None or column.kind == "text" else NumberChecker
    values: LevelChecker | NumberChecker = kind.of(table, name, backend)
    predicates = values.predicates(rules, given)
    if not rules.is_for(column.kind):
        predicates = [values.kind_predicate(rules), *predicates]
    return values, predicates


def _rows(predicate: RulePredicate, n_rows: int, backend: Backend) -> tuple[int, list[int]]:
    """Return the number of rows that violate a predicate, and the first of them."""
    xp = backend.xp
    step = block_rows(backend)
    count = 0
    rows: list[int] = []
    if predicate.n_rows == 0:
        return 0, rows
    for start in range(0, n_rows, step):
        mask = predicate.against(start, min(n_rows, start + step))
        found = int(backend.to_host(mask.sum()))
        if found and len(rows) < ROWS_SHOWN:
            first = backend.to_host(xp.flatnonzero(mask)[: ROWS_SHOWN - len(rows)])
            rows += (first + start).tolist()
        count += found
        if predicate.n_rows is not None and len(rows) == min(ROWS_SHOWN, predicate.n_rows):
            return predicate.n_rows, rows
    return count, rows


def _violation(
    name: str,
    values: LevelChecker | NumberChecker,
    rules: ColumnRules,
    predicate: RulePredicate,
    n_rows: int,
    rows: list[int],
) -> RuleViolation:
    extremes = predicate.extremes() if predicate.extremes is not None else None
    shown = tuple(values.shown(rows)) if rows else ()
    return RuleViolation(
        name, predicate.rule, n_rows, tuple(rows), shown, rules.otherwise == "warn", extremes, predicate.detail
    )

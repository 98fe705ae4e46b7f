"""Data rules of a model, checked on raw rows. Importable without Arrow, which only ``regex`` and rare types need.

Each row is checked as a separate table; only ``unique`` compares the rows of a call. Values that satisfy all rules of
their column pass one comparison. If a value does not, its column is checked in full, for the messages too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from gpupipe.errors import CellProblem, RowError
from gpupipe.names import show_value
from gpupipe.rules.cell_acceptance import acceptance, is_accepted
from gpupipe.rules.cell_predicates import CellPredicate, cell_predicates
from gpupipe.rules.model_rules import ServedRules
from gpupipe.rules.ruled_cell import CellReader, RuledCell
from gpupipe.rules.violation import ROWS_SHOWN, RuleViolation, describe_violations, format_time
from gpupipe.table.cell_encoders import EncodeByTable, UnfitCell, refuse_type
from gpupipe.table.schema import Kind

Rows = Sequence[Mapping[str, Any]]


class RowRules:
    """Rules of a model, compiled for raw rows. Threads may share it.

    Of the declarations of a column in `served`, the last one counts. `by_table` is for values of rare types, which are
    refused by default. `strip` is whether texts are stripped first, as the model does. Raise ConfigError if a rule does
    not apply to the kind of its column, or a ``regex`` is given and pyarrow is not installed.

    Examples
    --------
    >>> from gpupipe.rules import ColumnRules
    >>> from gpupipe.table.schema import DeclaredColumn
    >>> tenure = ServedRules("tenure", DeclaredColumn("numeric"), ColumnRules(range=(0, 72)))
    >>> mail = ServedRules("mail", DeclaredColumn("text"), ColumnRules(nulls=False, otherwise="warn"))
    >>> rules = RowRules([tenure, mail])
    >>> rules.check([{"tenure": 31, "mail": None}])
    ['mail: 1 row violates nulls: false: row 0: null']
    >>> rules.check([{"tenure": 31}, {"tenure": "-1"}])
    Traceback (most recent call last):
    gpupipe.errors.RowError: row 1, column 'tenure': expected range: [0, 72]; found '-1'
      where: rows are counted from 0
      to do: correct the values, or make them null
    """

    def __init__(
        self, served: Sequence[ServedRules], by_table: EncodeByTable = refuse_type, strip: bool = True
    ) -> None:
        by_column: dict[str, list[ServedRules]] = {}
        for each in served:
            by_column.setdefault(each.column, []).append(each)
        self._columns = [RuledColumn(name, rules, by_table, strip) for name, rules in by_column.items()]
        self._accepts = [(column.name, column.accepts, column) for column in self._columns]
        self._unique = [column for column in self._columns if column.is_unique]

    def check(self, rows: Rows) -> list[str]:
        """Check rows, and return the violations of rules that only warn, worded as for a table.

        Columns that a row does not have are skipped. Raise RowError if a value violates another rule, or is not of the
        kind of its column; it lists all such cells.
        """
        doubtful = []
        for name, accepts, column in self._accepts:
            for row in rows:
                try:
                    value = row[name]
                except KeyError:
                    continue
                accept = accepts.get(type(value))
                if not (is_accepted(accepts, value) if accept is None else accept(value)):
                    doubtful.append(column)
                    break
        if self._unique and len(rows) > 1:
            doubtful = [column for column in self._columns if column in doubtful or column in self._unique]
        return _check_in_full(doubtful, rows) if doubtful else []


class RuledColumn:
    """A column with its rules, `served`.

    `by_table` is for values of rare types. `strip` is whether texts are stripped first. For `accepts`, see
    `acceptance`. `is_unique` is whether a rule compares rows.
    """

    def __init__(self, name: str, served: Sequence[ServedRules], by_table: EncodeByTable, strip: bool) -> None:
        declared, rules = served[-1].declared, [each.rules for each in served]
        self.name = name
        self.is_unique = any(each.unique for each in rules)
        self._kind: Kind = declared.kind
        self._reader = CellReader(name, declared, by_table, strip)
        self._predicates = list(chain.from_iterable(cell_predicates(name, declared.kind, each) for each in rules))
        self.accepts = acceptance(declared.kind, rules, self._reader)

    def violations(self, rows: Rows) -> tuple[list[RuleViolation], list[CellProblem]]:
        """Return the violations of rules that only warn, and the cells that the model refuses."""
        cells, problems = self._read(rows)
        warned = []
        for predicate in self._predicates:
            violating = predicate.violating(cells)
            if not predicate.warns:
                refused = cells if predicate.is_of_column else violating
                problems += [CellProblem(cell.row, self.name, _shown(cell.value), predicate.rule) for cell in refused]
            elif violating or (predicate.is_of_column and cells):
                warned.append(self._violation(predicate, cells, violating))
        return warned, problems

    def _read(self, rows: Rows) -> tuple[list[RuledCell], list[CellProblem]]:
        cells, problems = [], []
        for position, row in enumerate(rows):
            if self.name in row:
                value = row[self.name]
                try:
                    cells.append(self._reader.read(position, value))
                except UnfitCell as unfit:
                    expected = str(unfit) or self._reader.expected
                    problems.append(CellProblem(position, self.name, _shown(value), expected))
        return cells, problems

    def _violation(
        self, predicate: CellPredicate, cells: Sequence[RuledCell], violating: Sequence[RuledCell]
    ) -> RuleViolation:
        known = [cell.content for cell in cells if cell.content is not None]
        shown = violating[:ROWS_SHOWN]
        return RuleViolation(
            self.name,
            predicate.rule,
            len(violating),
            tuple(cell.row for cell in shown),
            tuple(_content_text(cell, self._kind) for cell in shown),
            warns=True,
            extremes=(min(known), max(known)) if predicate.has_extremes and known else None,
            detail=predicate.detail if violating else predicate.detail + predicate.if_none,
        )


def _check_in_full(columns: Sequence[RuledColumn], rows: Rows) -> list[str]:
    warned: list[RuleViolation] = []
    problems: list[CellProblem] = []
    for column in columns:
        warnings, refused = column.violations(rows)
        warned += warnings
        problems += refused
    if problems:
        raise RowError(sorted(dict.fromkeys(problems), key=lambda problem: problem.row))
    return describe_violations(warned, lambda row: f"row {row:,}", may_change=False)


def _shown(value: Any) -> str:
    plain = value.item() if isinstance(value, np.generic) else value  # -0.5, not np.float64(-0.5)
    return "null" if value is None else show_value(plain)


def _content_text(cell: RuledCell, kind: Kind) -> str:
    """Return the content of a cell as messages about tables show it."""
    content = cell.content
    if content is None:
        return "null"
    if kind == "datetime":
        return format_time(content)
    if kind != "numeric":
        return repr(content)
    if content.is_integer() and abs(content) < 1e15:
        return f"{content:.0f}"
    return str(np.float32(content) if cell.precision == "single" else np.float64(content))

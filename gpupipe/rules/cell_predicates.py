"""Data rules as predicates over the cells of a few rows: the conditions of `gpupipe.rules.check`, without Arrow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpupipe.rules.labels import EXACT, integer_bounds, is_boolean, is_number, is_time, to_level, to_numbers
from gpupipe.rules.regex import TextMatcher
from gpupipe.rules.ruled_cell import RuledCell
from gpupipe.rules.settings import ColumnRules, to_micros
from gpupipe.table.schema import TEXT_KINDS, Kind

CellCheck = Callable[[RuledCell], bool]


@dataclass(frozen=True)
class CellPredicate:
    """A rule of a column as a predicate over its cells.

    `rule` is in YAML. `violating` takes the cells of a column in a call, and returns those that violate the rule.
    `warns` is whether a violation only warns. For a rule about the kind, `detail` is the kind of the column, and
    `if_none` what to add if no cell violates the rule. `is_of_column` is true if the column as a whole violates the
    rule, even without violating cells. `has_extremes` is whether messages contain the minimum and maximum of the
    column.
    """

    rule: str
    violating: Callable[[Sequence[RuledCell]], list[RuledCell]]
    warns: bool
    detail: str = ""
    if_none: str = ""
    is_of_column: bool = False
    has_extremes: bool = False


def cell_predicates(name: str, kind: Kind, rules: ColumnRules) -> list[CellPredicate]:
    """Return the predicates of the rules of a column of `kind`, in the order of the checks.

    Raise ConfigError if a rule does not apply to columns of that kind, or ``regex`` is given and pyarrow is not
    installed.
    """
    given = rules.checks_of(name, kind)
    is_level = kind not in ("numeric", "datetime")
    made = [] if rules.is_for(kind) else [_kind_predicate(kind, rules)]
    for rule in given:
        text, warns = rules.text(rule), rules.otherwise == "warn"
        if rule == "nulls":
            made.append(CellPredicate(text, _each(lambda cell: cell.content is None), warns))
        elif rule == "unique":
            made.append(CellPredicate(text, _repeated, warns))
            if kind == "numeric":
                made.append(CellPredicate(f"{text}, up to 2^53 for integers", _repeated_inexact, False))
        elif (check := _LEVEL_CHECKS[rule](rules, kind) if is_level else _NUMBER_CHECKS[rule](rules, kind)) is not None:
            made.append(CellPredicate(text, _each(check), warns, has_extremes=rule == "range"))
    return made


def _each(is_wrong: CellCheck) -> Callable[[Sequence[RuledCell]], list[RuledCell]]:
    return lambda cells: [cell for cell in cells if is_wrong(cell)]


def _repeated(cells: Sequence[RuledCell]) -> list[RuledCell]:
    counts = Counter(cell.content for cell in cells)
    return [cell for cell in cells if cell.content is not None and counts[cell.content] > 1]


def _repeated_inexact(cells: Sequence[RuledCell]) -> list[RuledCell]:
    """Return the repeated cells that may differ as given, because float64 does not represent all of their integers."""
    return [
        cell
        for cell in _repeated(cells)
        if abs(cell.content) >= EXACT and not isinstance(cell.value, float | np.floating)
    ]


def _integers(rules: ColumnRules, kind: Kind) -> CellCheck | None:
    bounds = integer_bounds(rules.dtype)
    if bounds is None or kind != "numeric":
        return None
    limits = {"double": bounds, "whole": bounds, "single": (_single(bounds[0]), _single(bounds[1]))}

    def is_wrong(cell: RuledCell) -> bool:
        low, high = limits[cell.precision]
        value = cell.content
        return value is not None and (not value.is_integer() or value < low or value > high)

    return is_wrong


def _range(rules: ColumnRules, kind: Kind) -> CellCheck:
    if kind == "datetime":
        first, last = (to_micros(b) if isinstance(b, str) else b for b in rules.range or (None, None))
        start, end = (-math.inf if first is None else first), (math.inf if last is None else last)
        return lambda cell: cell.content is not None and not start <= cell.content <= end
    low, high = (bound if isinstance(bound, float) else None for bound in rules.range or (None, None))
    double = (-math.inf if low is None else low), (math.inf if high is None else high)
    limits = {"double": double, "whole": double, "single": (_single(double[0]), _single(double[1]))}

    def is_wrong(cell: RuledCell) -> bool:
        low, high = limits[cell.precision]
        return cell.content is not None and not low <= cell.content <= high

    return is_wrong


def _numbers(rules: ColumnRules, kind: Kind) -> CellCheck:
    exact = to_numbers(rules.set or ())
    rounded = {_single(number) for number in exact}
    allowed = {"double": exact, "whole": rounded, "single": rounded}
    return lambda cell: cell.content is not None and cell.content not in allowed[cell.precision]


def _levels(rules: ColumnRules, kind: Kind) -> CellCheck:
    allowed = {to_level(label, kind) for label in rules.set or ()}
    return lambda cell: cell.content is not None and cell.content not in allowed


def _regex(rules: ColumnRules, kind: Kind) -> CellCheck:
    matcher = TextMatcher(rules.regex or "")
    return lambda cell: cell.content is not None and not matcher.accepts(cell.content)


def _no_check(rules: ColumnRules, kind: Kind) -> None:
    return None


_NUMBER_CHECKS: dict[str, Callable[[ColumnRules, Kind], CellCheck | None]] = {
    "dtype": _integers,
    "range": _range,
    "set": _numbers,
}
_LEVEL_CHECKS: dict[str, Callable[[ColumnRules, Kind], CellCheck | None]] = {
    "dtype": _no_check,  # the kind, which `_kind_predicate` checks
    "set": _levels,
    "regex": _regex,
}


def _kind_predicate(kind: Kind, rules: ColumnRules) -> CellPredicate:
    """Return the predicate of a rule for columns of another kind: a column of `kind` violates it in any case."""
    rule, detail = rules.text("dtype" if rules.dtype else "range"), f"the column is {kind}"
    all_read = f", but all values can be read as {rules.kind}" if kind not in ("numeric", "datetime") else ""
    made = CellPredicate(rule, _each(_is_known), rules.otherwise == "warn", detail, all_read, is_of_column=True)
    if kind == "numeric" and rules.kind == "boolean":
        detail += "; only 0 and 1 can be read as boolean"
        return replace(made, detail=detail, violating=_each(lambda cell: cell.content not in (None, 0, 1)))
    can_read = _CAN_READ.get(rules.kind or "") if kind in TEXT_KINDS else None
    if can_read is not None:
        return replace(made, violating=_each(lambda c: c.content is not None and not can_read(c.content)))
    return made


def _is_known(cell: RuledCell) -> bool:
    return cell.content is not None


_CAN_READ: dict[str, Callable[[str], bool]] = {"numeric": is_number, "boolean": is_boolean, "datetime": is_time}


def _single(value: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))

"""Rule violations, with the number of rows, the first rows and the setting that would accept them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpupipe.names import shorten

ROWS_SHOWN = 10
LEAST_SHOWN = 3  # rows per rule if many rules are violated, so that the message fits on one screen
LINES = 24


@dataclass(frozen=True)
class RuleViolation:
    """A violated rule of a column, and the violating rows."""

    column: str
    rule: str  # the rule in YAML: ``"range: [0, 100]"``
    n_rows: int  # number of violating rows; 0 if only the column as a whole violates the rule, which `detail` explains
    # rows, values: the first violating rows, at most `ROWS_SHOWN`, counted from 0, and their values as text.
    rows: tuple[int, ...]
    values: tuple[str, ...]
    warns: bool = False  # True for a warning, False for an error
    # For a range: the minimum and maximum of the column, times in microseconds since 1970-01-01 UTC.
    extremes: tuple[Any, Any] | None = None
    detail: str = ""  # for a rule about the kind: the kind of the column

    def shifted(self, by: int) -> RuleViolation:
        """Return the violation with `by` added to its row numbers."""
        return replace(self, rows=tuple(row + by for row in self.rows))

    @property
    def breach(self) -> str:
        """Short description: the number of rows and the rule."""
        rows = f"{self.n_rows:,} {'row violates' if self.n_rows == 1 else 'rows violate'} {self.rule}"
        return "; ".join(filter(None, [self.detail, rows if self.n_rows else f"expected {self.rule}"]))

    def line(self, name_row: Callable[[int], str], most: int = ROWS_SHOWN, may_change: bool = True) -> str:
        """Return a line with the violation, its first rows and, if rules may change, the setting that accepts them."""
        pairs = list(zip(self.rows, self.values, strict=True))[:most]
        shown = "; ".join(f"{name_row(row)}: {shorten(value)}" for row, value in pairs)
        more = "; ..." if self.n_rows > len(pairs) else ""
        summary = f"{self.column}: {self.breach}{':' if pairs else ''}"
        return " ".join(filter(None, [summary, shown + more, self._accepted(may_change)]))

    def _accepted(self, may_change: bool) -> str:
        rule = self.rule.partition(":")[0]
        if not may_change and rule != "range":
            return ""
        if rule == "dtype":
            kind = self.rule.partition(": ")[2]
            return f"(accepted with source.schema: {{{self.column}: {kind}}})" if not self.n_rows else ""
        if rule == "range" and self.extremes is not None:
            low, high = (format_time(v) if isinstance(v, int) else _number(v) for v in self.extremes)
            return f"(the column ranges from {low} to {high})"
        if rule == "set":
            return f"(accepted with {', '.join(map(shorten, dict.fromkeys(self.values)))} in the set)"
        return {"nulls": "(accepted with nulls: true)", "unique": "(accepted with unique: false)"}.get(rule, "")


def merge_violations(parts: Sequence[Sequence[RuleViolation]], starts: Sequence[int]) -> list[RuleViolation]:
    """Return the violations of a table from those of its partitions, whose first rows are `starts`."""
    found: dict[tuple[str, str], RuleViolation] = {}
    for part, start in zip(parts, starts, strict=True):
        for new in part:
            key, new = (new.column, new.rule), new.shifted(start)
            found[key] = _both(found[key], new) if key in found else new
    return list(found.values())


def _both(first: RuleViolation, second: RuleViolation) -> RuleViolation:
    extremes = [e for e in (first.extremes, second.extremes) if e is not None]
    return replace(
        first,
        n_rows=first.n_rows + second.n_rows,
        rows=(*first.rows, *second.rows)[:ROWS_SHOWN],
        values=(*first.values, *second.values)[:ROWS_SHOWN],
        extremes=(min(low for low, _ in extremes), max(high for _, high in extremes)) if extremes else None,
    )


def describe_violations(
    broken: Sequence[RuleViolation], name_row: Callable[[int], str], may_change: bool = True
) -> list[str]:
    """Return a line for each violation, at most `LINES` of them. Parameters as `RuleViolation.line`."""
    most = ROWS_SHOWN if len(broken) <= LINES // 3 else LEAST_SHOWN
    shown = [each.line(name_row, most, may_change) for each in broken[:LINES]]
    return [*shown, *([f"and {len(broken) - LINES} more"] if len(broken) > LINES else [])]


def format_time(micros: int) -> str:
    """Return a time in ISO format, in UTC."""
    import numpy as np

    text = str(np.datetime64(micros, "us"))
    return text.removesuffix(".000000").removesuffix("T00:00:00")


def _number(value: float) -> str:
    return f"{value:.15g}"

"""Errors and warnings for violated rules, and the check of tables to predict."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.errors import ROWS_COUNTED, SchemaError
from gpupipe.names import count_noun
from gpupipe.rules.check import find_violations
from gpupipe.rules.model_rules import ServedRules
from gpupipe.rules.settings import ColumnRules
from gpupipe.rules.violation import RuleViolation, describe_violations
from gpupipe.table.encode import encode

NameRow = Callable[[int], str]

FIX_ROWS = "correct the rows, or remove them"


def settle(
    broken: Sequence[RuleViolation],
    name_row: NameRow,
    where: str,
    fix: str,
    whose: str = "`data:`",
    may_change: bool = True,
) -> list[str]:
    """Return warnings for violations of rules that only warn.

    Raise SchemaError if other rules are violated; the message lists all violations.
    """
    refused = [each for each in broken if not each.warns]
    warned = [each for each in broken if each.warns]
    if refused:
        shown = describe_violations(refused, name_row, may_change)
        shown += [f"{each} (only warns)" for each in describe_violations(warned, name_row, may_change)]
        count = count_noun(len(refused), "rule")
        raise SchemaError("\n  ".join([f"{count} of {whose} violated:", *shown]), where=where, fix=fix)
    return describe_violations(warned, name_row, may_change)


def enforce_served(
    arrow: pa.Table, served: Sequence[ServedRules], backend: Backend, label: str, fix: str = FIX_ROWS
) -> list[str]:
    """Check a table to predict, and return the warnings of rules that only warn.

    Missing columns are skipped, because the model reports them itself. Raise SchemaError if rules are violated, or a
    column has another kind than in training.
    """
    found = [each for each in served if each.column in arrow.column_names]
    if not found:
        return []
    declared = {each.column: each.recorded for each in found}
    table = encode(arrow.select(list(declared)), backend.host, declared)
    return settle_served(find_violations(table, by_column(found), backend.host), label, fix)


def settle_served(broken: Sequence[RuleViolation], label: str, fix: str = FIX_ROWS) -> list[str]:
    """Return the warnings for a table to predict; raise as `settle`."""
    where = f"{label}; {ROWS_COUNTED}"
    return settle(broken, row_text, where, fix, "the model", may_change=False)


def by_column(served: Sequence[ServedRules]) -> dict[str, list[ColumnRules]]:
    """Return the rules of each column."""
    rules: dict[str, list[ColumnRules]] = {}
    for each in served:
        rules.setdefault(each.column, []).append(each.rules)
    return rules


def row_text(row: int) -> str:
    """Return the name of a row in messages."""
    return f"row {row:,}"

"""Columns of an external table that a run needs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.external.row_predicate import Condition
from gpupipe.io.settings import JoinedTable, Source, TableSource


def needed_columns(source: TableSource, names: Sequence[str], also: frozenset[str]) -> list[str]:
    """Return the columns to copy, in the order of the table.

    These are the columns of the result, of the row filter and of ``id:``, those in `also`, and those that ``drop:``
    names exactly, which may identify rows. All columns of a table of events, because ops name them.
    """
    if isinstance(source, JoinedTable) and not source.is_joined:
        return list(names)
    named = {*also, *source.drop, *(source.id if isinstance(source, Source) else ())}
    if isinstance(source, JoinedTable):
        named |= {*source.on.right}
    picked = {*ColumnFilter(source).pick(names)}
    return [name for name in names if name in picked or name in named] or list(names)


def describe_choice(names: Sequence[str], all_names: Sequence[str], condition: Condition | None) -> str:
    """Return a text that differs between two choices of columns and rows; "" for all of both."""
    if len(names) == len(all_names) and condition is None:
        return ""
    found = hashlib.sha256(repr((list(names), condition)).encode()).hexdigest()[:16]
    return f", {len(names)} of {len(all_names)} columns{'' if condition is None else ', filtered'} ({found})"

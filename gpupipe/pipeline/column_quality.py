"""Summaries of the columns of the table, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.report.data import ColumnQuality
from gpupipe.rules import RuleViolation
from gpupipe.table.blocks import EncodedTable
from gpupipe.table.schema import FIRST_LEVEL, NAT, NULL, Column

ROWS_TO_SORT = 200_000  # distinct numbers are counted up to this many rows; sorting more would take seconds


def column_quality(
    table: EncodedTable, targets: Sequence[str], backend: Backend, broken: Sequence[RuleViolation] = ()
) -> list[ColumnQuality]:
    """Return a summary of each column, in order; columns on a device are summarized there.

    Violations of rules (`broken`) are added to the notes of their columns.
    """

    def summary(column: Column) -> ColumnQuality:
        found = _summary(table, column, "target" if column.name in targets else column.kind, backend)
        return replace(found, notes=(*found.notes, *(each.breach for each in broken if each.column == column.name)))

    return [summary(column) for column in table.schema]


def _summary(table: EncodedTable, column: Column, kind: str, backend: Backend) -> ColumnQuality:
    if column.kind == "text":
        null = table.text_nulls(column.name) / max(1, table.n_rows)
        return ColumnQuality(name=column.name, kind=kind, dtype=column.dtype, null_fraction=null, notes=("free text",))
    values = table.column(column.name)
    if column.levels is not None:
        found = _levels(column, values, backend)
    elif column.kind == "datetime":
        found = _times(values, backend)
    else:
        found = _numbers(values, backend)
    notes = ("constant",) if found.get("distinct") == 1 else ()
    return ColumnQuality(name=column.name, kind=kind, dtype=column.dtype, notes=notes, **found)


def _levels(column: Column, values: Any, backend: Backend) -> dict[str, Any]:
    counts = backend.to_host(backend.xp.bincount(values, minlength=column.n_codes))
    levels = counts[FIRST_LEVEL:]
    known = int(levels.sum())
    found: dict[str, Any] = {
        "null_fraction": int(counts[NULL]) / max(1, len(values)),
        "distinct": int(np.count_nonzero(levels)),
    }
    if known and column.levels:
        top = int(levels.argmax())
        found |= {"top": column.levels[top], "top_fraction": int(levels[top]) / known}
    return found


def _numbers(values: Any, backend: Backend) -> dict[str, Any]:
    known = values[~backend.xp.isnan(values)]
    found: dict[str, Any] = {"null_fraction": 1.0 - len(known) / max(1, len(values))}
    if len(known):
        bounds = [known.min().astype("float64"), known.mean(dtype=np.float64), known.max().astype("float64")]
        found |= zip(("minimum", "mean", "maximum"), backend.to_host(backend.xp.stack(bounds)).tolist(), strict=True)
    if len(known) <= ROWS_TO_SORT:
        found["distinct"] = len(backend.xp.unique(known))
    return found


def _times(values: Any, backend: Backend) -> dict[str, Any]:
    known = values[values != NAT]
    found: dict[str, Any] = {"null_fraction": 1.0 - len(known) / max(1, len(values))}
    if len(known):
        bounds = backend.to_host(backend.xp.stack([known.min(), known.max()])).tolist()
        found |= {"minimum": _when(bounds[0]), "maximum": _when(bounds[1])}
    return found


def _when(micros: Any) -> str:
    try:
        return datetime.fromtimestamp(int(micros) / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{int(micros) / 1e6:g} s"

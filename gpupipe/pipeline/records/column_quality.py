"""Summaries of the columns of the table, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.report.data import ColumnQuality
from gpupipe.report.text import column_value
from gpupipe.rules import RuleViolation
from gpupipe.table.blocks import EncodedTable
from gpupipe.table.schema import FIRST_LEVEL, NAT, NULL, Column

MOST_BARS = 20
SAMPLED_ROWS = 20_000  # of a histogram
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
        found["bars"] = np.sort(levels[levels > 0])[::-1][:MOST_BARS].tolist()
    return found


def _numbers(values: Any, backend: Backend) -> dict[str, Any]:
    known = values[~backend.xp.isnan(values)]
    found: dict[str, Any] = {"null_fraction": 1.0 - len(known) / max(1, len(values))}
    if len(known):
        bounds = [known.min().astype("float64"), known.mean(dtype=np.float64), known.max().astype("float64")]
        found |= zip(("minimum", "mean", "maximum"), backend.to_host(backend.xp.stack(bounds)).tolist(), strict=True)
    if len(known) <= ROWS_TO_SORT:
        found["distinct"] = len(backend.xp.unique(known))
    return found | {"bars": _histogram(known, backend)}


def _times(values: Any, backend: Backend) -> dict[str, Any]:
    known = values[values != NAT]
    found: dict[str, Any] = {"null_fraction": 1.0 - len(known) / max(1, len(values))}
    if len(known):
        bounds = backend.to_host(backend.xp.stack([known.min(), known.max()])).tolist()
        found |= zip(("minimum", "maximum"), (column_value(each, "datetime") for each in bounds), strict=True)
    return found | {"bars": _histogram(known, backend)}


def _histogram(known: Any, backend: Backend) -> list[float]:
    """Return the number of sampled values in bars of equal width; the outer ones have the tails, 1 % at each end."""
    sample = np.sort(backend.to_host(known[:: 1 + len(known) // SAMPLED_ROWS]).astype(np.float64))
    if not len(sample):
        return []
    low, high = sample[[len(sample) // 100, -1 - len(sample) // 100]]
    if not np.isfinite(high - low):
        return []
    n_bars = min(MOST_BARS, len(np.unique(sample)))
    counts: list[float] = np.histogram(sample.clip(low, high), n_bars)[0].tolist()
    return counts

"""Severity of each column, and the verdict on all of them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from gpupipe.inference.drift.column_comparison import CellTest, compare_cells, compare_shares, holm
from gpupipe.inference.drift.column_comparison import jensen_shannon_distance as jensen_shannon
from gpupipe.inference.drift.column_comparison import wasserstein_distance as wasserstein
from gpupipe.inference.drift.column_drift import ColumnDrift, PeriodDrift
from gpupipe.inference.drift.reference import NULL_CELL, OTHER_CELL, UNSEEN_CELL, DriftColumn
from gpupipe.inference.drift.severity import SEVERITIES, Severity, severity_of, worst
from gpupipe.inference.drift.words import describe_change
from gpupipe.typing import Array

FAMILY_LEVEL = 0.01


@dataclass(frozen=True)
class Verdict:
    """Severity of the drift of a table, with the mean PSI of the input columns, weighted by importance."""

    severity: Severity
    weighted_psi: float


def compare_columns(
    columns: Sequence[DriftColumn],
    current: Mapping[str, Array],
    weights: Mapping[str, float] | None = None,
    level: float = FAMILY_LEVEL,
) -> list[ColumnDrift]:
    """Return the drift of each column.

    A column drifts if a change is significant and large. Its distribution, its share of nulls and its share of unseen
    levels are tested, at a level for all tests together, after Holm. The severity is that of the PSI of the significant
    changes, less the PSI expected without drift.

    `current` has other rows per cell, by column: int64, shape (n_cells,). `weights` are those of the columns in the
    verdict; None: each counts as much as any other. `level` is the probability that any column of a table without drift
    is significant.
    """
    steps = comparison_steps(columns, current, weights, level)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: list[ColumnDrift] = done.value
            return found


def comparison_steps(
    columns: Sequence[DriftColumn],
    current: Mapping[str, Array],
    weights: Mapping[str, float] | None = None,
    level: float = FAMILY_LEVEL,
) -> Generator[None, None, list[ColumnDrift]]:
    """Return what `compare_columns` returns, after a step for the tests and one for the description of each column.

    A step takes 0.1 ms, and a server answers requests between them.
    """
    tests = []
    for column in columns:
        tests.append(_tests(column, current[column.name]))
        yield
    p_values = holm(np.array([test.p_value for test in chain.from_iterable(tests)]))
    found, at = [], 0
    for column, each in zip(columns, tests, strict=True):
        adjusted, at = p_values[at : at + len(each)], at + len(each)
        significant = [test.psi for test, p in zip(each, adjusted, strict=True) if p <= level]
        weight = 1.0 if weights is None else max(0.0, weights.get(column.name, 0.0))
        drift = _describe(column, current[column.name], weight)
        found.append(
            replace(
                drift,
                severity=severity_of(max(significant, default=0.0)),
                psi=max(test.psi for test in each),
                p_value=float(adjusted.min()),
                is_significant=bool(significant),
            )
        )
        yield
    return found


def _tests(column: DriftColumn, counts: Array) -> list[CellTest]:
    reference = column.counts
    n = column.n_rows
    m = int(counts.sum())
    found = [compare_shares(int(reference[NULL_CELL]), n, int(counts[NULL_CELL]), m)]
    if column.form == "ordered":
        found.append(compare_cells(reference, counts, is_ordered=True))
    elif column.form == "levels":
        # Fewer unseen levels than expected, as in the training rows themselves, do not count.
        found.append(compare_cells(_without_unseen(reference), _without_unseen(counts), is_ordered=False))
        if counts[UNSEEN_CELL] * n > reference[UNSEEN_CELL] * m:
            found.append(compare_shares(int(reference[UNSEEN_CELL]), n, int(counts[UNSEEN_CELL]), m))
    return found


def _without_unseen(counts: Array) -> Array:
    """Return the counts with unseen levels among the other levels that are not named."""
    merged = np.delete(counts, UNSEEN_CELL)
    merged[OTHER_CELL - 1] += counts[UNSEEN_CELL]
    return merged


def _describe(column: DriftColumn, counts: Array, weight: float) -> ColumnDrift:
    a, b = column.counts, counts
    distance = None if column.edges is None else wasserstein(column.edges, a[1:], b[1:])
    return ColumnDrift(
        name=column.name,
        kind=column.kind,
        weight=weight,
        jensen_shannon=jensen_shannon(a, b),
        wasserstein=distance,
        change=describe_change(column, counts),
        reference=tuple(a.tolist()),
        current=tuple(b.tolist()),
        edges=None if column.edges is None else tuple(column.edges.tolist()),
        levels=column.levels,
    )


def overall_verdict(columns: Sequence[ColumnDrift], scores: Sequence[ColumnDrift]) -> Verdict:
    """Return the verdict on a table.

    It is the worst of three:

    - the worst severity of a score;
    - the severity of the mean PSI of the input columns, weighted by importance, in which columns without a significant
      change count as 0;
    - ``moderate``, if the severity of any column with a positive weight is ``high``.

    Times do not count: a later table has later times.
    """
    counted = [column for column in columns if column.kind != "datetime"]
    total = sum(column.weight for column in counted)
    psi = sum(column.weight * column.psi for column in counted if column.is_significant) / total if total else 0.0
    is_any_high = any(column.severity == "high" and column.weight > 0 for column in counted)
    least: Severity = "moderate" if is_any_high else "none"
    return Verdict(worst([*(score.severity for score in scores), severity_of(psi), least]), psi)


def drifted_since(periods: Sequence[PeriodDrift]) -> str | None:
    """Return the first period of the current unbroken run of drifted periods; None if the last one has not drifted."""
    since = None
    for period in periods:
        since = None if period.severity == "none" else since or period.period
    return since


def worst_first(columns: Iterable[ColumnDrift]) -> list[ColumnDrift]:
    """Return columns by severity, then by weighted PSI, then by PSI, the worst first."""
    return sorted(columns, key=lambda c: (-SEVERITIES.index(c.severity), -c.weight * c.psi, -c.psi, c.name))

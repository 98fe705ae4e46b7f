"""Drift reports of synthetic tables, counted with NumPy and compared by gpupipe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from gpupipe.inference.drift.column_drift import MetricDrift, PeriodDrift
from gpupipe.inference.drift.reference import DriftColumn
from gpupipe.inference.drift.report import DriftReport, ReferenceModel
from gpupipe.inference.drift.verdict import compare_columns, drifted_since, overall_verdict, worst_first

N_REFERENCE, N_ROWS = 8_000, 2_000


def synthetic_report(n_columns: int, n_periods: int, prefix: str = "column", level: str = "level") -> DriftReport:
    """Return a report on columns of numbers and of categories in turn.

    Every fifth column drifts in the last two thirds of the periods, and the score in the last half.
    """
    rng = np.random.default_rng(0)
    references = [_reference(rng, f"{prefix} {i}", i % 2 == 1, level) for i in range(n_columns)]
    score = _reference(rng, f"{prefix} score", False, level)
    days = [str(day) for day in pd.date_range("2024-01-01", periods=n_periods).strftime("%Y-%m-%d")]
    columns, scores, periods = [], [], []
    own: dict[str, list[PeriodDrift]] = {}
    total = {each.name: np.zeros_like(each.counts) for each in (*references, score)}
    for t, day in enumerate(days):
        cells = {c.name: _counts(rng, c, i % 10 in (0, 5) and t >= n_periods // 3) for i, c in enumerate(references)}
        cells[score.name] = _counts(rng, score, t >= n_periods // 2)
        columns, scores = (compare_columns(each, cells) for each in (references, [score]))
        for found in (*columns, *scores):
            own.setdefault(found.name, []).append(PeriodDrift(day, N_ROWS, found.psi, found.severity))
            total[found.name] += cells[found.name]
        verdict = overall_verdict(columns, scores)
        periods.append(PeriodDrift(day, N_ROWS, verdict.weighted_psi, verdict.severity))
    columns, scores = (compare_columns(each, total) for each in (references, [score]))
    verdict = overall_verdict(columns, scores)
    columns, scores = (
        [replace(c, periods=tuple(own[c.name]), since=drifted_since(own[c.name])) for c in worst_first(each)]
        for each in (columns, scores)
    )
    return DriftReport(
        severity=verdict.severity, weighted_psi=verdict.weighted_psi, n_rows=N_ROWS * n_periods,
        n_scored=N_ROWS * n_periods, n_labelled=1_234, columns=tuple(columns), scores=tuple(scores),
        metrics=(
            MetricDrift("roc_auc", 0.87654, 0.81234, 0.79123, 0.83345, True),
            MetricDrift("log_loss", 0.41234, 0.41876, 0.39765, 0.43987, False),
        ),
        unit="day", periods=tuple(periods), since=drifted_since(periods),
        model=ReferenceModel(name=prefix, estimator="xgboost", target="y", created="2024-01-01T08:30:00+00:00",
                             gpupipe="0.1.0", sha256="0123456789abcdef" * 4),
    )  # fmt: skip


def _reference(rng: np.random.Generator, name: str, is_text: bool, level: str) -> DriftColumn:
    if is_text:
        shares = rng.dirichlet(np.full(15, 2.0))
        counts = np.concatenate([[80, 0, 0], rng.multinomial(N_REFERENCE - 80, shares)])
        return DriftColumn(name, "categorical", counts, levels=tuple(f"{level} {i}" for i in range(15)))
    values = rng.lognormal(size=N_REFERENCE - 80)
    edges = np.quantile(values, np.linspace(0, 1, 63))
    edges[-1] = np.nextafter(edges[-1], np.inf)
    return DriftColumn(name, "numeric", np.concatenate([[80, 0], np.histogram(values, edges)[0], [0]]), edges=edges)


def _counts(rng: np.random.Generator, column: DriftColumn, is_moved: bool) -> np.ndarray:
    """Return the cells of new rows, like those of the reference, or with more rows in later cells."""
    weights = column.counts * (np.linspace(0.05, 1.95, len(column.counts)) if is_moved else 1.0)
    return rng.multinomial(N_ROWS, weights / weights.sum())

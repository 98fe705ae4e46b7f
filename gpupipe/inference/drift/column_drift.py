"""Drift of columns, periods and metrics: what a drift report consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from gpupipe.inference.drift.reference import FIRST_LEVEL_CELL
from gpupipe.inference.drift.severity import Severity
from gpupipe.report.text import number

RESERVED_CELLS = ("null", "unseen", "other levels")


@dataclass(frozen=True)
class PeriodDrift:
    """Drift of one period, of a column or of the whole table.

    Attributes
    ----------
    period : str
        Its first day or hour: ``2024-06-30``.
    psi : float
        Of a column; of the table, the weighted mean.
    """

    period: str
    n_rows: int
    psi: float
    severity: Severity


@dataclass(frozen=True, kw_only=True)
class ColumnDrift:
    """Drift of one input column or score.

    Attributes
    ----------
    name, kind : str
        A raw column is read unencoded by ops over keys and texts.
    weight : float
        Its importance; 1 for all columns of a model without importances.
    severity : Severity
        ``"none"`` unless a change is significant and large.
    psi : float
        Population stability index less the value expected without drift, at least 0: the largest of the distribution,
        the share of nulls and the share of unseen levels.
    p_value : float
        Adjusted for the number of tests.
    jensen_shannon : float
        Jensen-Shannon distance, base 2, in [0, 1].
    wasserstein : float, optional
        Wasserstein-1 distance in standard deviations of the training rows; None without an order or without a spread.
    change : str
        The largest changes in words.
    reference, current : tuple of int
        Training rows, and rows of the table, in each cell. The cells are nulls; then, for numbers and times, values
        below the first edge, between edges, and from the last edge on; for categories, unseen levels, other levels and
        each of `levels`; for texts, values.
    edges : tuple of float or int, optional
        Numbers, or microseconds since 1970-01-01 UTC.
    levels : tuple of str, optional
    since : str, optional
        The first period of the current unbroken run of drifted periods.
    """

    name: str
    kind: str
    weight: float = 1.0
    severity: Severity = "none"
    is_significant: bool = False
    psi: float = 0.0
    p_value: float = 1.0
    jensen_shannon: float = 0.0
    wasserstein: float | None = None
    change: str = ""
    reference: tuple[int, ...] = ()
    current: tuple[int, ...] = ()
    edges: tuple[float, ...] | None = None
    levels: tuple[str, ...] | None = None
    since: str | None = None
    periods: tuple[PeriodDrift, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """Name of each cell."""
        if self.edges is not None:
            bounds = [number(float(edge)) for edge in self.edges]
            inner = [f"[{low}, {high})" for low, high in pairwise(bounds)]
            return ("null", *([f"< {bounds[0]}", *inner, f">= {bounds[-1]}"] if bounds else ["value"]))
        if self.levels is not None:
            return (*RESERVED_CELLS[:FIRST_LEVEL_CELL], *self.levels)
        return ("null", "value")

    def to_json(self) -> dict[str, Any]:
        """Return the drift as JSON values."""
        values = asdict(self)
        edges, levels = self.edges, self.levels
        return {
            **values, "reference": list(self.reference), "current": list(self.current), "cells": list(self.cells),
            "edges": None if edges is None else list(edges), "levels": None if levels is None else list(levels),
            "periods": [asdict(period) for period in self.periods],
        }  # fmt: skip


@dataclass(frozen=True)
class MetricDrift:
    """Metric of the labelled rows, relative to that of the run.

    Attributes
    ----------
    recorded : float
        On the test rows of the run.
    value, low, high : float
        On the labelled rows, with its 95 % interval.
    is_worse : bool
        True if it is worse than recorded by more than the sampling errors of both explain, at a level of 5 %.
    """

    name: str
    recorded: float
    value: float
    low: float
    high: float
    is_worse: bool


def describe_runs(periods: Sequence[PeriodDrift]) -> str:
    """Return consecutive periods of the same severity as text, the last six runs."""
    runs: list[list[PeriodDrift]] = []
    for period in periods:
        if runs and runs[-1][0].severity == period.severity:
            runs[-1].append(period)
        else:
            runs.append([period])
    texts = [
        f"{run[0].severity} {run[0].period}" + (f" to {run[-1].period}" if len(run) > 1 else "") for run in runs[-6:]
    ]
    return ("… " if len(runs) > len(texts) else "") + ", ".join(texts)

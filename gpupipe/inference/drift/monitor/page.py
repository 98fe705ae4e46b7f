"""The monitor page: verdict and reasons, metrics of labelled rows, severity over time, and each score and column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpupipe.inference.drift.column_drift import ColumnDrift, MetricDrift, PeriodDrift
from gpupipe.inference.drift.monitor.charts import DrawnCells, draw_cells, histogram_svg, psi_svg, strip_svg
from gpupipe.inference.drift.monitor.sentences import (
    counts_in_verdict,
    metric_verdict,
    metrics_sentence,
    period_text,
    reason_sentence,
    shorten_name,
    verdict_sentence,
)
from gpupipe.inference.drift.severity import LEAST_PSI, SEVERITIES
from gpupipe.inference.drift.verdict import FAMILY_LEVEL
from gpupipe.metrics import METRICS
from gpupipe.report.environment import html_environment

if TYPE_CHECKING:
    from gpupipe.inference.drift.report import DriftReport

TEMPLATES = Path(__file__).parent / "templates"
MOST_DRAWN = 60  # columns with a distribution
MOST_STRIPS = 20  # columns in the overview over time
MOST_LISTED = 2_000  # rows of the table of all columns
SMALLEST_P = 0.0001


@dataclass(frozen=True)
class DrawnColumn:
    """Column or score with its charts.

    `histogram` and `psi` are SVG; ``""`` without numbers or with fewer than two periods. `rank` is that of the
    importance, from 1; 0 for a score, or if the run measured none.
    """

    drift: ColumnDrift
    cells: DrawnCells | None
    histogram: str
    psi: str
    rank: int


@dataclass(frozen=True)
class PeriodStrip:
    """Line of the overview over time: severities of all columns together, a score or a column.

    `role` is ``"verdict"``, ``"score"`` or ``"column"``.
    """

    name: str
    role: str
    svg: str
    since: str | None


@dataclass(frozen=True)
class MetricInterval:
    """Metric with its interval, placed on a separate axis.

    `recorded`, `value`, `low` and `high` are positions in percent of the axis. If `is_loss`, lower values are better.
    """

    metric: MetricDrift
    recorded: float
    value: float
    low: float
    high: float
    verdict: str
    is_loss: bool


def monitor_page(report: DriftReport, data: str, compared: datetime) -> str:
    """Return the HTML document of a report.

    It needs no other file, no script and no network. Every value is escaped. Its size is bounded: 60 columns are drawn,
    20 are in the overview over time, and 2,000 in the table of all columns.

    `data` is the name of the compared table, or ``""``; `compared` has a time zone.
    """
    from markupsafe import Markup

    by_weight = sorted(report.columns, key=lambda column: -column.weight) if report.has_importances else []
    ranks = {id(column): rank for rank, column in enumerate(by_weight, 1)}

    def draw(column: ColumnDrift) -> DrawnColumn:
        cells = draw_cells(column)
        histogram = "" if cells is None or cells.histogram is None else histogram_svg(cells.histogram)
        psi = psi_svg(column.periods, report.unit) if len(column.periods) > 1 else ""
        return DrawnColumn(column, cells, Markup(histogram), Markup(psi), ranks.get(id(column), 0))

    def strip(name: str, role: str, periods: Sequence[PeriodDrift], since: str | None) -> PeriodStrip:
        return PeriodStrip(name, role, Markup(strip_svg(periods, report.unit)), since)

    strips = []
    if len(report.periods) > 1:
        strips = [strip("verdict", "verdict", report.periods, report.since)]
        each = [("score", s) for s in report.scores] + [("column", c) for c in _in_time(report)[:MOST_STRIPS]]
        strips += [strip(c.name, role, c.periods, c.since) for role, c in each if c.periods]
    moved = [column for column in report.columns if column.severity != "none" or column.since]
    steady = [column for column in report.columns if column.severity == "none" and not column.since]
    n_moved = min(len(moved), MOST_DRAWN)
    environment = html_environment(TEMPLATES)
    environment.filters |= {"shorten": shorten_name, "p_value": _p_value, "moment": _moment}
    environment.globals |= {"severities": SEVERITIES}
    return environment.get_template("monitor.html").render(
        title=f"Drift of {shorten_name(report.model.name)}" if report.model.name else "Drift",
        report=report,
        data=data,
        compared=f"{compared.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        verdict=verdict_sentence(report),
        reasons=[sentence for sentence in (reason_sentence(report), metrics_sentence(report)) if sentence],
        metrics=[_place(metric) for metric in report.metrics],
        strips=strips,
        since=period_text(report.since, report.unit) if report.since else "",
        scores=[draw(score) for score in report.scores],
        moved=[draw(column) for column in moved[:n_moved]],
        n_moved=len(moved),
        steady=[draw(column) for column in steady[: MOST_DRAWN - n_moved]],
        n_steady=len(steady),
        listed=[*report.scores, *report.columns][:MOST_LISTED],
        limits=LEAST_PSI,
        level=FAMILY_LEVEL,
        severity_counts=_severity_counts(report.drifted),
        largest_weight=max((column.weight for column in report.columns), default=0.0),
    )


def _severity_counts(drifted: Sequence[ColumnDrift]) -> str:
    """Return the number of columns of each severity, the worst first: ``2 high, 4 moderate``."""
    counts = Counter(column.severity for column in drifted)
    return ", ".join(f"{counts[severity]:,} {severity}" for severity in reversed(SEVERITIES) if counts[severity])


def _in_time(report: DriftReport) -> list[ColumnDrift]:
    """Return the columns that drifted, over all rows or in a period, those that count in the verdict first."""
    moved = [c for c in report.columns if c.severity != "none" or any(p.severity != "none" for p in c.periods)]
    return sorted(moved, key=lambda column: not counts_in_verdict(column))


def _place(metric: MetricDrift) -> MetricInterval:
    ends = metric.recorded, metric.value, metric.low, metric.high
    low, high = min(ends), max(ends)
    margin = 0.12 * (high - low) or 1.0
    low, high = low - margin, high + margin
    recorded, value, left, right = (round(100 * (each - low) / (high - low), 2) for each in ends)
    is_loss = not METRICS.get(metric.name.partition("[")[0]).greater_is_better
    return MetricInterval(metric, recorded, value, left, right, metric_verdict(metric), is_loss)


def _p_value(p: float) -> str:
    return f"< {SMALLEST_P}" if p < SMALLEST_P else f"{p:.4f}"


def _moment(text: str) -> str:
    """Return an ISO 8601 time as on the report of a run; other text as it is."""
    try:
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return text

"""Drift report: each column and score relative to the training rows, the verdict, and the metrics of labelled rows."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from gpupipe.inference.drift.column_drift import ColumnDrift, MetricDrift, PeriodDrift, describe_runs
from gpupipe.inference.drift.severity import LEAST_PSI, SEVERITIES, Severity
from gpupipe.names import count_noun
from gpupipe.report.text import number, printable

N_LINES = 15  # columns named on the console
NAME_LETTERS = 28


@dataclass(frozen=True, kw_only=True)
class ReferenceModel:
    """Model whose training rows a table was compared with.

    Attributes
    ----------
    name : str
        Of the configuration of the run.
    estimator, target : str
        ``"xgboost"``; the target column, or several with commas, or ``""``.
    created : str
        When it was exported, ISO 8601.
    gpupipe : str
        The version that wrote it.
    sha256 : str
        Of its manifest, which identifies the model.
    """

    name: str = ""
    estimator: str = ""
    target: str = ""
    created: str = ""
    gpupipe: str = ""
    sha256: str = ""


@dataclass(frozen=True, kw_only=True, repr=False)
class DriftReport:
    """Comparison of a table with the training rows of a model, as returned by `gpupipe.Model.drift`.

    Attributes
    ----------
    severity : Severity
        The verdict; see `gpupipe.inference.drift.verdict.overall_verdict`.
    weighted_psi : float
        Mean PSI of the input columns, weighted by importance.
    n_rows, n_scored, n_labelled : int
        Rows of the table, and those of them that were predicted and that have a target.
    columns, scores : tuple of ColumnDrift
        The worst first.
    metrics : tuple of MetricDrift
        Empty if the table has no target.
    unit : str
        ``"hour"``, ``"day"``, ``"week"`` or ``"month"``; ``""`` without periods.
    periods : tuple of PeriodDrift
        The verdict on each period.
    since : str, optional
        The first period of the current unbroken run of drifted periods.
    has_importances : bool
        False if all columns weigh the same because the run measured no importances.
    notes : tuple of str
    model : ReferenceModel

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from gpupipe import Pipeline
    >>> frame = pd.DataFrame({"age": [i % 60 for i in range(1000)], "left": [i % 60 > 30 for i in range(1000)]})
    >>> folder = tempfile.TemporaryDirectory()
    >>> run = Pipeline(frame, target="left", models=["logistic_regression"]).run(f"{folder.name}/run", quiet=True)
    >>> report = run.model.drift(frame[["age"]] + 20)
    >>> report.severity, [column.name for column in report.drifted], report.reaches("moderate")
    ('high', ['age'], True)
    >>> folder.cleanup()
    """

    severity: Severity
    weighted_psi: float
    n_rows: int
    n_scored: int = 0
    n_labelled: int = 0
    columns: tuple[ColumnDrift, ...] = ()
    scores: tuple[ColumnDrift, ...] = ()
    metrics: tuple[MetricDrift, ...] = ()
    unit: str = ""
    periods: tuple[PeriodDrift, ...] = ()
    since: str | None = None
    has_importances: bool = True
    notes: tuple[str, ...] = ()
    model: ReferenceModel = ReferenceModel()

    def reaches(self, severity: Severity) -> bool:
        """Return whether the verdict is at least `severity`."""
        return SEVERITIES.index(self.severity) >= SEVERITIES.index(severity)

    @property
    def drifted(self) -> tuple[ColumnDrift, ...]:
        """The columns with a severity, the worst first."""
        return tuple(column for column in self.columns if column.severity != "none")

    @property
    def verdict(self) -> str:
        """The verdict in one line."""
        since = f" since {self.since}" if self.since and self.severity != "none" else ""
        drifted = f"{len(self.drifted)} of {len(self.columns)} columns"
        worst = next((score for score in self.scores if score.severity != "none"), None)
        scores = "scores unchanged" if worst is None else f"score {worst.name} {worst.severity}"
        if not self.scores:
            scores = "scores not compared"
        return f"drift {self.severity}{since}: {drifted} drifted, {scores}"

    def lines(self, limit: int = N_LINES) -> list[str]:
        """Return the report as lines of text, the worst columns first.

        Parameters
        ----------
        limit : int
            Maximum number of columns to name.
        """
        rows = count_noun(self.n_rows, "row")
        scored = f", {self.n_scored:,} of them predicted" if self.n_scored else ""
        lines = [f"{rows}{scored}, compared with the training rows of the model"]
        shown = [*(("score", each) for each in self.scores), *(("column", each) for each in self.drifted[:limit])]
        if shown:
            width = min(NAME_LETTERS, max(len(each.name) for _, each in shown))
            lines += [_line(what, each, width) for what, each in shown]
        if (more := len(self.drifted) - limit) > 0:
            lines.append(f"and {count_noun(more, 'more column')}")
        if len(self.periods) > 1:
            lines.append(f"by {self.unit}: {describe_runs(self.periods)}")
        lines += [_metric_line(metric) for metric in self.metrics]
        lines += [f"note: {note}" for note in self.notes]
        return [*(printable(line) for line in lines), printable(self.verdict)]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values, with the counts of every cell and period."""
        return {
            "severity": self.severity, "verdict": self.verdict, "since": self.since,
            "weighted_psi": self.weighted_psi, "limits": dict(LEAST_PSI), "n_rows": self.n_rows,
            "n_scored": self.n_scored, "n_labelled": self.n_labelled, "has_importances": self.has_importances,
            "columns": [column.to_json() for column in self.columns],
            "scores": [score.to_json() for score in self.scores],
            "metrics": [asdict(metric) for metric in self.metrics],
            "unit": self.unit, "periods": [asdict(period) for period in self.periods], "notes": list(self.notes),
            "reference_model": asdict(self.model),
        }  # fmt: skip

    def to_html(self, data: str = "", compared: datetime | None = None) -> str:
        """Return the monitor page: one HTML document without scripts that needs no other file and no network.

        Parameters
        ----------
        data : str
            Name of the table, for the title.
        compared : datetime, optional
            When it was compared; default: now.
        """
        from gpupipe.inference.drift.monitor.page import monitor_page

        return monitor_page(self, data, compared or datetime.now(UTC))

    def __repr__(self) -> str:
        return f"DriftReport({count_noun(self.n_rows, 'row')}: {self.verdict})"

    def _repr_html_(self) -> str:
        head = ("column", "kind", "severity", "PSI", "Jensen-Shannon", "Wasserstein", "since", "change")
        rows = [
            (
                each.name,
                each.kind,
                each.severity,
                number(each.psi),
                number(each.jensen_shannon),
                "" if each.wasserstein is None else number(each.wasserstein),
                each.since or "",
                each.change,
            )
            for each in (*self.scores, *self.columns)
        ]
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        metrics = "".join(f"<p>{html.escape(_metric_line(metric))}</p>" for metric in self.metrics)
        return (
            f"<p><b>{html.escape(self.verdict)}</b></p>{metrics}"
            f"<table><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr>{body}</table>"
        )


def _line(what: str, each: ColumnDrift, width: int) -> str:
    name = each.name if len(each.name) <= width else f"{each.name[: width - 1]}…"
    since = f", since {each.since}" if each.since else ""
    return f"{what:<6} {name:<{width}}  {each.severity:<8}  PSI {each.psi:<6.3f}  {each.change}{since}"


def _metric_line(metric: MetricDrift) -> str:
    against = "worse than" if metric.is_worse else "in line with"
    interval = f"[{number(metric.low)}, {number(metric.high)}]"
    return f"{metric.name} {number(metric.value)} {interval}, {against} {number(metric.recorded)} of the run"

"""Evaluation of a model in use: metrics of each period, measured or estimated, of slices, and the drift of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Literal

from gpupipe.inference.drift.report import DriftReport
from gpupipe.inference.drift.severity import Severity
from gpupipe.names import count_noun
from gpupipe.report.slices import MetricSlice
from gpupipe.report.text import number, percent, printable

Status = Literal["measured", "estimated", "untested", "cannot say"]
N_LINES, N_SLICES = 24, 8  # periods and slices shown on the console
N_COLUMNS = 3


@dataclass(frozen=True)
class EvaluatedMetric:
    """Metric of a period.

    Attributes
    ----------
    value, low, high : float, optional
        With its 95 % interval; None if there is a `reason`.
    recorded : float, optional
        On the test rows of the run; None for costs, which a model does not have.
    is_worse : bool
        True if it is worse than recorded by more than the errors of both explain, at a level of 5 %.
    reason : str
        Why it cannot be estimated.
    """

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    recorded: float | None = None
    is_worse: bool = False
    reason: str = ""


@dataclass(frozen=True)
class EvaluatedPeriod:
    """Metrics of the rows of a period.

    Attributes
    ----------
    period : str
        Its first day or hour; without periods, ``"rows with a label"`` or ``"rows without a label"``.
    n_rows, n_labelled : int
    status : {"measured", "estimated", "untested", "cannot say"}
        Measured: at least 90 % of the rows have a label. Estimated: fewer have, and the estimate was tested on earlier
        periods. Untested: no earlier period has labels.
    reason : str
        Why a metric has no estimate.
    n_tests : int
        Earlier periods with labels on which the estimate was tested.
    severity : {"none", "low", "moderate", "high"}
        Of the drift relative to the training rows.
    metrics : tuple of EvaluatedMetric
    observed, predicted : float, optional
        Mean target and mean output of the rows with a label: the rate of the positive class, or the mean of numbers.
    calibration_error : float, optional
        Expected calibration error, in bins with equal numbers of rows.
    """

    period: str
    n_rows: int
    n_labelled: int
    status: Status = "cannot say"
    reason: str = ""
    n_tests: int = 0
    severity: Severity = "none"
    metrics: tuple[EvaluatedMetric, ...] = ()
    observed: float | None = None
    predicted: float | None = None
    calibration_error: float | None = None

    @property
    def by_name(self) -> Mapping[str, EvaluatedMetric]:
        """The metrics by name."""
        return {metric.name: metric for metric in self.metrics}

    @property
    def support(self) -> str:
        """The status in words, with its reason."""
        if self.status == "estimated":
            return f"estimated, tested on {count_noun(self.n_tests, 'earlier period')}"
        if self.status == "untested":
            return "estimated, if the targets of rows with equal scores have not changed: no labelled period tests it"
        return f"{self.status}: {self.reason}" if self.reason else self.status


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Evaluation of rows that a model has scored, as returned by `gpupipe.Model.evaluate`.

    Attributes
    ----------
    periods : tuple of EvaluatedPeriod
        In the order of time.
    slices : tuple of MetricSlice
        Metrics of the rows with a label: of all, then of each value or bin of the slice columns.
    drift : DriftReport
        Comparison of the rows with the training rows.
    notes : tuple of str

    Examples
    --------
    >>> import tempfile
    >>> import gpupipe as gp
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [i % 60 for i in range(400)], "left": [i % 60 > 30 for i in range(400)]})
    >>> folder = tempfile.TemporaryDirectory()
    >>> run = gp.Pipeline(frame, target="left", models=["gaussian_nb"]).run(f"{folder.name}/run", quiet=True)
    >>> found = run.model.evaluate(frame)
    >>> [period.status for period in found.periods], found.fails("worse")
    (['measured'], False)
    >>> folder.cleanup()
    """

    periods: tuple[EvaluatedPeriod, ...]
    slices: tuple[MetricSlice, ...]
    drift: DriftReport
    notes: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics, the one that ordered the models first."""
        return tuple(dict.fromkeys(chain.from_iterable(period.by_name for period in self.periods)))

    def fails(self, level: Literal["worse", "unknown"]) -> bool:
        """Return whether the first metric of the latest period is worse than in the run.

        Parameters
        ----------
        level : {"worse", "unknown"}
            ``"unknown"``: also if that period is ``"untested"``, or the metric has no estimate.
        """
        last = self.periods[-1] if self.periods else None
        first = None if last is None else last.by_name.get(self.metrics[0]) if self.metrics else None
        if last is None or first is None or first.value is None or last.status == "untested":
            return level == "unknown"
        return first.is_worse

    @property
    def verdict(self) -> str:
        """The first metric in the latest period, in one line."""
        if not self.periods:
            return "cannot say: no row has a time"
        last = self.periods[-1]
        first = last.by_name.get(self.metrics[0]) if self.metrics else None
        if first is None or first.value is None:
            reason = (first.reason if first is not None else "") or last.reason or "no metric is defined"
            return f"{last.period}: cannot say: {reason}"
        against = ""
        if first.recorded is not None:
            against = f", {'worse than' if first.is_worse else 'in line with'} {number(first.recorded)} of the run"
        return f"{last.period}: {first.name} {interval_text(first)}{against}; {last.support}"

    def lines(self) -> list[str]:
        """Return the evaluation as lines of text: the latest periods, the worst slices, and the verdict."""
        n_labelled = sum(period.n_labelled for period in self.periods)
        lines = [f"{count_noun(self.drift.n_rows, 'row')}, {n_labelled:,} with a label"]
        shown, names = self.periods[-N_LINES:], self.metrics[:N_COLUMNS]
        table = [["period", "rows", "labels", *names, "drift", ""], *(_cells(period, names) for period in shown)]
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]) - 1)]
        lines += ["  ".join([*(f"{c:<{w}}" for c, w in zip(r, widths, strict=False)), r[-1]]).rstrip() for r in table]
        if len(shown) < len(self.periods):
            lines.append(f"and {count_noun(len(self.periods) - len(shown), 'earlier period')}, which --json lists")
        for each in [own for own in self.slices if own.is_worse][:N_SLICES]:
            name, value = next(iter(each.metrics.items()))
            lines.append(
                f"slice {each}: {name} {number(value)}, worse than {number(self.slices[0].metrics[name])} of all"
            )
        lines += [f"note: {note}" for note in self.notes]
        return [printable(line) for line in (*lines, self.verdict)]

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation as JSON values."""
        return {
            "verdict": self.verdict,
            "n_rows": self.drift.n_rows,
            "unit": self.drift.unit,
            "periods": [asdict(period) for period in self.periods],
            "slices": [{**asdict(own), "notes": list(own.notes)} for own in self.slices],
            "drift": self.drift.to_json(),
            "notes": list(self.notes),
        }

    def to_html(self, data: str = "", evaluated: datetime | None = None) -> str:
        """Return the evaluation as one HTML document without scripts that needs no other file and no network.

        Parameters
        ----------
        data : str
            Name of the table.
        evaluated : datetime, optional
            When it was evaluated; default: now.
        """
        from gpupipe.inference.evaluation.page import evaluation_page

        return evaluation_page(self, data, evaluated or datetime.now(UTC))

    def __repr__(self) -> str:
        return f"Evaluation({count_noun(len(self.periods), 'period')}; {self.verdict})"


def interval_text(metric: EvaluatedMetric) -> str:
    """Return a metric with its interval; ``"cannot say"`` without a value."""
    if metric.value is None or metric.low is None or metric.high is None:
        return "cannot say"
    return f"{number(metric.value)} [{number(metric.low)}, {number(metric.high)}]"


def _cells(period: EvaluatedPeriod, names: tuple[str, ...]) -> list[str]:
    metrics = [period.by_name.get(name) for name in names]
    texts = ["" if each is None else interval_text(each) + " worse" * each.is_worse for each in metrics]
    share = percent(period.n_labelled / period.n_rows) if period.n_rows else ""
    return [period.period, f"{period.n_rows:,}", share, *texts, period.severity, _short(period)]


def _short(period: EvaluatedPeriod) -> str:
    if period.status == "cannot say":
        return f"cannot say: {period.reason}"
    return period.status

"""Verdict of a drift report in sentences, with its reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpupipe.inference.drift.column_drift import ColumnDrift, MetricDrift
from gpupipe.inference.drift.severity import severity_of, worst
from gpupipe.inference.drift.words import bin_quantiles
from gpupipe.names import count_noun
from gpupipe.report.text import metric_title, number

if TYPE_CHECKING:
    from gpupipe.inference.drift.report import DriftReport

MOST_NAMES = 3
MOST_LETTERS = 60


def verdict_sentence(report: DriftReport) -> str:
    """Return the severity, the number of changed columns, the worst of them, and the change of the scores.

    Examples
    --------
    >>> from gpupipe.inference.drift.report import DriftReport
    >>> column = ColumnDrift(name="age", kind="numeric", severity="high", psi=0.4)
    >>> verdict_sentence(DriftReport(severity="moderate", weighted_psi=0.05, n_rows=100, columns=(column,)))
    'Moderate drift: 1 of 1 column changed, most of all age; scores were not compared.'
    """
    n = len(report.columns)
    since = f" since {period_text(report.since, report.unit)}" if report.since else ""
    if report.severity == "none" and since:
        latest = report.periods[-1].severity if report.periods else "some"
        columns = _columns([column for column in report.columns if column.since], n)
        scores = "scores changed" if any(score.since for score in report.scores) else _scores(report.scores)
        return f"No drift over all rows, but {latest} drift{since}: {columns}; {scores}."
    title = "No drift" if report.severity == "none" else f"{report.severity.capitalize()} drift"
    return f"{title}{since}: {_columns(report.drifted, n)}; {_scores(report.scores)}."


def _columns(changed: Sequence[ColumnDrift], n: int) -> str:
    if not changed:
        return f"none of the {count_noun(n, 'column')} changed"
    first = next((each for each in changed if counts_in_verdict(each)), changed[0])
    return f"{len(changed):,} of {count_noun(n, 'column')} changed, most of all {shorten_name(first.name)}"


def reason_sentence(report: DriftReport) -> str:
    """Return which of the three parts of the verdict decides it; ``""`` without drift.

    See `gpupipe.inference.drift.verdict.overall_verdict`.
    """
    if report.severity == "none":
        return ""
    reasons = []
    if worst(score.severity for score in report.scores) == report.severity:
        reasons.append(f"the drift of the scores is {report.severity}")
    if severity_of(report.weighted_psi) == report.severity:
        weights = "weighted by importance" if report.has_importances else "in which all weigh the same"
        reasons.append(f"the mean PSI of the columns, {weights}, is {number(report.weighted_psi)}")
    high = [each.name for each in report.drifted if each.severity == "high" and counts_in_verdict(each)]
    if report.severity == "moderate" and high:
        reasons.append(f"{_names(high)} {'is' if len(high) == 1 else 'are'} high")
    return f"The verdict is {report.severity} because {' and '.join(reasons)}." if reasons else ""


def metrics_sentence(report: DriftReport) -> str:
    """Return how many metrics are worse than in the run; ``""`` without labels."""
    if not report.metrics:
        return ""
    lead, worse = (
        f"On the {count_noun(report.n_labelled, 'row')} with a label,",
        [m for m in report.metrics if m.is_worse],
    )
    n = len(report.metrics)
    if not worse:
        which = "the metric is" if n == 1 else f"all {n} metrics are"
        return f"{lead} {which} in line with the run."
    first = worse[0]
    example = f"{metric_title(first.name)} is {number(first.value)} instead of {number(first.recorded)}"
    return f"{lead} {len(worse)} of {count_noun(n, 'metric')} {'is' if len(worse) == 1 else 'are'} worse: {example}."


def metric_verdict(metric: MetricDrift) -> str:
    """Return whether a metric is worse than in the run, in words."""
    return "worse" if metric.is_worse else "in line"


def counts_in_verdict(column: ColumnDrift) -> bool:
    """Return whether the drift of an input column counts in the verdict."""
    return column.kind != "datetime" and column.weight > 0


def period_text(period: str | None, unit: str) -> str:
    """Return a period in a sentence: ``the week of 2024-04-29``, ``2024-05``."""
    return f"the week of {period}" if unit == "week" else str(period)


def _scores(scores: Sequence[ColumnDrift]) -> str:
    if not scores:
        return "scores were not compared"
    changed = [each for each in scores if each.severity != "none"]
    if not changed:
        return "scores did not change"
    first = next((each for each in changed if each.edges), changed[0])
    name, moved = shorten_name(first.name), _median_change(first)
    return f"the median of {name} {moved}" if moved else f"{name} changed: {first.change}"


def _median_change(score: ColumnDrift) -> str:
    """Return how the median of a score moved; ``""`` if it did not, or if there is none."""
    samples = [np.asarray(counts)[1:] for counts in (score.reference, score.current)]
    if not score.edges or not all(each.sum() for each in samples):
        return ""
    then, now = (bin_quantiles(np.asarray(score.edges), each, (0.5,))[0] for each in samples)
    texts = then.text("numeric"), now.text("numeric")
    verb = "rose" if now.value > then.value else "fell"
    return "" if texts[0] == texts[1] else f"{verb} from {texts[0]} to {texts[1]}"


def _names(names: Sequence[str]) -> str:
    shown = [shorten_name(name) for name in names[:MOST_NAMES]]
    if len(names) > MOST_NAMES:
        return f"{', '.join(shown)} and {len(names) - MOST_NAMES} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def shorten_name(name: str) -> str:
    """Return a name of at most 60 letters without its middle: names of a table often differ at their ends."""
    return name if len(name) <= MOST_LETTERS else f"{name[:34]}…{name[-25:]}"

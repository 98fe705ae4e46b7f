"""Verdict on a challenger: promote, keep or refuse."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from gpupipe.metrics import METRICS
from gpupipe.metrics.bootstrap import Z_95
from gpupipe.model_parts.lineage import Verdict
from gpupipe.names import count_noun

if TYPE_CHECKING:
    from gpupipe.inference.diff.prediction_comparison import PredictionComparison
    from gpupipe.metrics.bootstrap import MetricChange


@dataclass(frozen=True)
class ChallengerVerdict:
    """Verdict on a challenger, with its reasons.

    ``promote``: it is better, or worse by less than the margin. ``refuse``: it is worse by more than the margin, on all
    rows or on a slice. ``keep``: the rows are too few to tell.
    """

    name: Verdict
    reasons: tuple[str, ...]


def decide_verdict(metric: str, found: PredictionComparison, margin: float) -> ChallengerVerdict:
    """Return the verdict by the intervals of one metric, on all rows and by slice.

    This is a test for non-inferiority: the challenger is promoted if its loss is smaller than `margin`, at least 0, at
    a confidence of 97.5% (Piaggio et al., "Reporting of noninferiority and equivalence randomized trials", JAMA 308
    (2012) 2594). A slice can only prevent it. With several slices, their intervals are wider, so that all of them hold
    with the same confidence (Bonferroni).
    """
    change = found.metrics.get(metric)
    if change is None or not math.isfinite(change.low):
        return ChallengerVerdict(
            "keep", (f"{metric} has no interval on {count_noun(found.n_labelled, 'row')} with a target",)
        )
    low, high = _gain(metric, change)
    told = f"{_values(metric, change)}, 95% interval of the gain {low:+.4f} to {high:+.4f}"
    slices = [own for own in found.slices if metric in own.metrics and math.isfinite(own.metrics[metric].low)]
    wider = NormalDist().inv_cdf(1 - 0.025 / max(1, len(slices))) / Z_95
    fallen = [
        f"the slice {own.column} = {own.level} fell: {_values(metric, own.metrics[metric])}"
        for own in slices
        if _gain(metric, own.metrics[metric], wider)[1] < -margin
    ]
    if fallen or high < -margin:
        return ChallengerVerdict("refuse", (told, *fallen))
    return ChallengerVerdict("promote" if low >= -margin else "keep", (told,))


def _gain(metric: str, change: MetricChange, wider: float = 1.0) -> tuple[float, float]:
    """Return the interval as a gain, positive where the challenger is better, with `wider` times its width."""
    sign = 1.0 if METRICS.get(metric.partition("[")[0]).greater_is_better else -1.0
    half = wider * (change.high - change.low) / 2.0
    return sign * change.difference - half, sign * change.difference + half


def _values(metric: str, change: MetricChange) -> str:
    return f"{metric} {change.old:.4g} → {change.new:.4g}"

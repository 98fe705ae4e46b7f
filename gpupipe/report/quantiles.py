"""Predicted quantiles compared with the true values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupipe.report.text import percent


@dataclass(frozen=True, kw_only=True)
class QuantileRow:
    """One predicted quantile.

    `level` is in (0, 1). `share` is the fraction of the rows whose true value is at most the quantile. `loss` and
    `constant_loss` are the mean pinball loss, and that of the best constant.
    """

    level: float
    share: float
    loss: float
    constant_loss: float


def quantile_sentences(found: Sequence[QuantileRow], target: str, rows: str) -> list[str]:
    """Return how often the true values are below the quantiles, and how much better these are than constants."""
    low, high = found[0], found[-1]
    if low is high:
        share = percent(low.share)
        first = f"The true {target} is at most its predicted quantile {low.level:g} for {share} of the {rows}."
    else:
        first = (
            f"The true {target} is between its predicted quantiles {low.level:g} and {high.level:g} for "
            f"{percent(high.share - low.share)} of the {rows}; {100 * (high.level - low.level):.6g} % are expected."
        )
    loss, constant = (sum(values) for values in zip(*((row.loss, row.constant_loss) for row in found), strict=True))
    if not constant:
        return [first]
    gain = percent(1 - loss / constant)
    return [first, f"The pinball loss is {gain} lower than that of the same quantiles of all {rows}."]

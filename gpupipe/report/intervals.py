"""Measured coverage of prediction intervals and sets."""

from __future__ import annotations

from dataclasses import dataclass

from gpupipe.report.text import number, percent


@dataclass(frozen=True)
class IntervalCoverage:
    """Coverage of the intervals or sets of held-out rows.

    `level` is the expected coverage, and `coverage` the fraction of the `n_rows` rows whose truth is in the interval or
    set. Under cross-validation by time, the rows of the first fold have no interval and are not counted. For
    regression, `mean_width` is in units of the target; for classification, `mean_size` is the mean number of classes in
    a set.
    """

    level: float
    coverage: float
    n_rows: int
    mean_width: float | None = None
    mean_size: float | None = None

    def __str__(self) -> str:
        what = "intervals" if self.mean_size is None else "sets"
        size = f"mean width {number(self.mean_width)}" if self.mean_size is None else f"mean size {self.mean_size:.2f}"
        inside = f"contain the truth of {percent(self.coverage)} of {number(self.n_rows)} held-out rows"
        return f"{what} at {100 * self.level:g} % {inside}; {size}"

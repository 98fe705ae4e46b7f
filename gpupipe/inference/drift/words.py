"""Changes of a column in words, from its counts: ``median about 32 → about 42``, ``null 0.0 % → 8.2 %``.

Quantiles are those of bins: they are marked as approximate, and rounded to a digit that the width of the bin justifies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpupipe.inference.drift.reference import FIRST_LEVEL_CELL, NULL_CELL, OTHER_CELL, UNSEEN_CELL, DriftColumn
from gpupipe.report.text import column_value, whole_number
from gpupipe.typing import Array

LEAST_SHARE = 0.005  # smaller changes of a share are not worded
SPREAD = (0.1, 0.9)  # quantiles that are named if the median stays
LETTERS = 24  # of a level


def describe_change(column: DriftColumn, counts: Array) -> str:
    """Return the largest changes of a column in words, at most three; ``""`` if no row was counted.

    `counts` (array of int64, shape (n_cells,)): other rows per cell.
    """
    if not counts.sum():
        return ""
    texts = []
    if column.form == "ordered":
        texts.append(_shift(column, counts))
        outside = [("below the training range", counts[1]), ("above the training range", counts[-1])]
        n = max(1, int(counts[1:].sum()))
        texts += [f"{int(k) / n:.1%} {where}" for where, k in outside if len(counts) > 2 and k >= LEAST_SHARE * n]
    elif column.form == "levels":
        texts.append(_levels(column, counts))
        texts.append(_share("unseen", column.counts, counts, UNSEEN_CELL))
    texts.append(_share("null", column.counts, counts, NULL_CELL))
    return ", ".join(text for text in texts if text)


def _share(name: str, reference: Array, counts: Array, cell: int, least: float = LEAST_SHARE) -> str:
    then, now = (float(each[cell] / max(1, each.sum())) for each in (reference, counts))
    return f"{name} {then:.1%} → {now:.1%}" if abs(now - then) >= least else ""


def _levels(column: DriftColumn, counts: Array) -> str:
    """Return the level whose share has changed most."""
    then, now = (each / max(1, each.sum()) for each in (column.counts, counts))
    cells = [OTHER_CELL, *range(FIRST_LEVEL_CELL, len(counts))]
    cell = max(cells, key=lambda i: abs(now[i] - then[i]))
    levels = column.levels or ()
    name = "other levels" if cell == OTHER_CELL else f"level {_shorten(levels[cell - FIRST_LEVEL_CELL])!r}"
    return _share(name, column.counts, counts, cell)


def _shorten(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"


def _shift(column: DriftColumn, counts: Array) -> str:
    """Return the median before and after, or the spread if the median stays in its bin."""
    edges = column.edges
    if edges is None or len(edges) < 2 or not column.counts[1:].sum() or not counts[1:].sum():
        return ""
    then, now = (bin_quantiles(edges, each[1:], (*SPREAD, 0.5)) for each in (column.counts, counts))
    if abs(now[2].value - then[2].value) * 10 >= then[1].value - then[0].value:
        return f"median {then[2].text(column.kind)} → {now[2].text(column.kind)}"
    ends = [f"{each[0].rounded(column.kind)} to {each[1].rounded(column.kind)}" for each in (then, now)]
    return f"80% of values about {ends[0]} → {ends[1]}" if ends[0] != ends[1] else ""


@dataclass(frozen=True)
class BinQuantile:
    """Quantile of values of which only the bin is known."""

    value: float  # values are taken as uniform within a bin, and those outside the edges as equal to the nearest
    width: float  # width of the bin that has the quantile, in the unit of the values; 0 outside the edges
    side: str = ""  # {"", "below", "above"}: where the quantile is, if it is outside the edges

    def text(self, kind: str) -> str:
        """Return the quantile as text, marked as approximate: ``"about 63,000"``, ``"above 12"``."""
        return f"{self.side or 'about'} {self.rounded(kind)}"

    def rounded(self, kind: str) -> str:
        """Return the value as text, rounded to a digit of the size of the bin."""
        digits = -math.floor(math.log10(1.1 * self.width)) if self.width > 0 else 5  # bins of whole numbers: nearly 1
        if kind == "datetime" or not -12 < digits < 5:
            return column_value(self.value, kind)
        rounded = round(self.value, digits)
        return f"{rounded:,.{digits}f}" if digits > 0 else whole_number(rounded)


def bin_quantiles(edges: Array, counts: Array, shares: tuple[float, ...]) -> list[BinQuantile]:
    """Return quantiles of values in bins.

    - `edges` (array, shape (k,)): at least one
    - `counts` (array of int64, shape (k + 1,)): not all 0
    """
    x = np.concatenate([edges[:1], edges, edges[-1:]]).astype(np.float64)
    reached = np.concatenate([[0], np.cumsum(counts)]) / counts.sum()
    found = []
    for share in shares:
        at = min(int(np.searchsorted(reached[1:], share)), len(counts) - 1)
        inside = (share - reached[at]) / max(reached[at + 1] - reached[at], 1e-300)
        width = float(x[at + 1] - x[at])
        side = "below" if at == 0 else "above" if at == len(counts) - 1 else ""
        found.append(BinQuantile(float(x[at] + min(max(inside, 0.0), 1.0) * width), width, side))
    return found

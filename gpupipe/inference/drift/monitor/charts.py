"""Histograms, pairs of bars, and charts of the monitor page as SVG.

They are stretched to the width of the page, so they have no text, and its style colours them. A page with 60 columns
and 400 periods has hundreds of them, so each is a few hundred bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise

import numpy as np

from gpupipe.inference.drift.column_drift import RESERVED_CELLS, ColumnDrift, PeriodDrift, describe_runs
from gpupipe.inference.drift.reference import FIRST_LEVEL_CELL
from gpupipe.inference.drift.severity import LEAST_PSI, SEVERITIES
from gpupipe.report.text import column_value, number, percent, printable
from gpupipe.typing import Array

MOST_PAIRS = 12  # bins that are pairs of bars with a name each; more are a histogram
MOST_LEVELS = 10
MOST_CHANGED = 4  # of these levels, chosen because their share changed most
N_BARS = 30  # of a histogram, if the bins have different widths
TAIL = 0.1  # of the range of all bins but the outermost, by which the axis extends into each of these

HEIGHT = 100
LARGEST_PSI = 1.0  # bars of larger ones end here
STRIP_HEIGHTS = {"none": 8, "low": 40, "moderate": 70, "high": 100}


def histogram_svg(found: SampleHistogram) -> str:
    """Return the training rows as an area and the rows of the table as an outline."""
    n, scale = len(found.then), (HEIGHT - 4) / (found.largest or 1.0)

    def steps(shares: Sequence[float]) -> str:
        heights = [_round(HEIGHT - share * scale) for share in shares]
        return f"M0 {HEIGHT}V{heights[0]}H1" + "".join(f"V{h}H{i}" for i, h in enumerate(heights[1:], 2)) + f"V{HEIGHT}"

    label = f"Histogram from {found.low} to {found.high}; the highest bar has {percent(found.largest)} of the rows"
    body = f'<path class="then" d="{steps(found.then)}z"/><path class="now" d="{steps(found.now)}"/>'
    return make_svg("histogram", n, label, body)


def psi_svg(periods: Sequence[PeriodDrift], unit: str) -> str:
    """Return a bar for each period, as high as the square root of its PSI, and a line at the limit of each severity.

    For two normal distributions, the square root is their distance in standard deviations.
    """
    heights = [_round(HEIGHT * math.sqrt(min(each.psi, LARGEST_PSI) / LARGEST_PSI)) for each in periods]
    limits = (_round(HEIGHT - HEIGHT * math.sqrt(least / LARGEST_PSI)) for least in LEAST_PSI.values())
    lines = "".join(f"M0 {y}H{len(periods)}" for y in limits)
    worst = max(periods, key=lambda each: each.psi)
    label = f"PSI by {unit}: {describe_runs(periods)}; largest {number(worst.psi)} in {worst.period}"
    return make_svg("psi", len(periods), label, _bars(periods, heights) + f'<path class="limits" d="{lines}"/>')


def strip_svg(periods: Sequence[PeriodDrift], unit: str) -> str:
    """Return a bar for each period whose height and colour are its severity."""
    label = f"Severity by {unit}: {describe_runs(periods)}"
    return make_svg("strip", len(periods), label, _bars(periods, [STRIP_HEIGHTS[each.severity] for each in periods]))


def _bars(periods: Sequence[PeriodDrift], heights: Sequence[float]) -> str:
    """Return one path for each severity, so that a bar takes few bytes."""
    placed = sorted(enumerate(periods), key=lambda each: SEVERITIES.index(each[1].severity))
    found = []
    for severity, group in groupby(placed, key=lambda each: each[1].severity):
        bars = "".join(f"M{i} {HEIGHT}h.85v-{heights[i]}h-.85z" for i, _ in group)
        found.append(f'<path class="{severity}" d="{bars}"/>')
    return "".join(found)


def make_svg(name: str, width: int, label: str, body: str) -> str:
    """Return an SVG of `width` units, stretched to its place, with a class and a label."""
    box = f'viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none"'
    return f'<svg class="{name}" {box} role="img" aria-label="{escape(printable(label))}">{body}</svg>'


def _round(value: float) -> float | int:
    found = round(value, 1)
    return int(found) if found == int(found) else found


@dataclass(frozen=True)
class SharePair:
    """Share of a cell in the training rows and in the table."""

    name: str
    # then, now: in [0, 1].
    then: float
    now: float
    is_value: bool = True  # False for nulls, unseen levels and others that are not a single value or level


@dataclass(frozen=True)
class SampleHistogram:
    """Shares of the rows in bars of equal width."""

    # then, now: of the training rows and of the table; the first and last bar include all lower and higher values of
    # the training range.
    then: tuple[float, ...]
    now: tuple[float, ...]
    # low, middle, high: values at the ends and in the middle of the axis.
    low: str
    middle: str
    high: str

    @property
    def largest(self) -> float:
        """The largest share."""
        return max(*self.then, *self.now)


@dataclass(frozen=True)
class DrawnCells:
    """Cells of a column as drawn: every row of both samples is in the histogram or in one pair."""

    histogram: SampleHistogram | None
    pairs: tuple[SharePair, ...]

    @property
    def longest(self) -> float:
        """Share of the longest possible bar of a pair: that of the largest pair, or 1 next to a histogram."""
        return 1.0 if self.histogram else max((max(pair.then, pair.now) for pair in self.pairs), default=1.0)


def draw_cells(column: ColumnDrift) -> DrawnCells | None:
    """Return the cells of a column as drawn; None if a sample has no rows.

    A column with more than 12 bins has a histogram. Its bars have equal widths, and rows are taken as uniform within a
    stored bin. Cells without any row are not drawn.
    """
    a, b = (np.asarray(counts, np.int64) for counts in (column.reference, column.current))
    if not a.sum() or not b.sum():
        return None
    then, now = a / a.sum(), b / b.sum()
    if column.levels is not None:
        return DrawnCells(None, _level_pairs(column.levels, then, now))
    edges = () if column.edges is None else column.edges
    if len(edges) < 2:
        return DrawnCells(None, _used([_pair(name, then, now, i) for i, name in enumerate(column.cells)]))
    low, high = (column_value(edges[at], column.kind) for at in (0, -1))
    below, above, null = (
        _pair(name, then, now, cell, is_value=False)
        for name, cell in ((f"below {low}", 1), (f"above {high}", -1), ("null", 0))
    )
    if len(edges) - 1 > MOST_PAIRS:
        return DrawnCells(_histogram(edges, column.kind, then, now), _used([below, above, null]))
    inner = [_pair(name, then, now, i + 2) for i, name in enumerate(_bin_names(edges, column.kind))]
    return DrawnCells(None, _used([below, *inner, above, null]))


def _pair(name: str, then: Array, now: Array, cell: int, is_value: bool = True) -> SharePair:
    return SharePair(name, float(then[cell]), float(now[cell]), is_value)


def _used(pairs: Sequence[SharePair]) -> tuple[SharePair, ...]:
    return tuple(pair for pair in pairs if pair.then or pair.now)


def _level_pairs(levels: Sequence[str], then: Array, now: Array) -> tuple[SharePair, ...]:
    """Return the most frequent levels and those that changed most, one pair for the others, and the reserved cells."""
    named = range(FIRST_LEVEL_CELL, FIRST_LEVEL_CELL + len(levels))
    chosen = set(named)
    if len(levels) > MOST_LEVELS:
        changed = sorted(named, key=lambda i: -abs(now[i] - then[i]))[:MOST_CHANGED]
        frequent = sorted(set(named) - set(changed), key=lambda i: -max(now[i], then[i]))
        chosen = {*changed, *frequent[: MOST_LEVELS - MOST_CHANGED]}
    pairs = [_pair(levels[i - FIRST_LEVEL_CELL], then, now, i) for i in named if i in chosen]
    hidden = [i for i in named if i not in chosen]
    if hidden:
        sums = float(then[hidden].sum()), float(now[hidden].sum())
        pairs.append(SharePair(f"{len(hidden)} more levels", *sums, is_value=False))
    reserved = [_pair(RESERVED_CELLS[cell], then, now, cell, is_value=False) for cell in (2, 1, 0)]
    return _used([*pairs, *reserved])


def _bin_names(edges: Sequence[float], kind: str) -> list[str]:
    """Return names of the bins: single values if all bins begin one apart, as those of small integers do."""
    starts = np.asarray(edges[:-1], np.float64)
    if kind != "datetime" and (starts == np.round(starts)).all() and (np.diff(starts) == 1).all():
        return [column_value(start, kind) for start in starts]
    texts = [column_value(edge, kind) for edge in edges]
    return [low if low == high else f"{low} to {high}" for low, high in pairwise(texts)]


def _histogram(edges: Sequence[float], kind: str, then: Array, now: Array) -> SampleHistogram:
    x = np.asarray(edges, np.float64)
    widths = np.diff(x)
    if widths[-1] < 1e-3 * np.median(widths[:-1]):  # the largest value of many rows, such as an integer
        x = np.append(x[:-1], x[-2] + np.median(widths[:-1]))
        widths = np.diff(x)
    if np.allclose(widths, widths[0], rtol=1e-3):
        bars = x
    else:
        margin = TAIL * (x[-2] - x[1])
        bars = np.linspace(max(x[0], x[1] - margin), min(x[-1], x[-2] + margin), N_BARS + 1)
    shares = []
    for each in (then, now):
        reached = np.concatenate([[0.0], np.cumsum(each[2:-1])])  # at each edge
        inside = np.interp(bars, x, reached)
        inside[[0, -1]] = 0.0, reached[-1]  # the outermost bars have the tails
        shares.append(tuple(np.diff(inside).tolist()))
    low, middle, high = (column_value(value, kind) for value in (bars[0], (bars[0] + bars[-1]) / 2, bars[-1]))
    return SampleHistogram(
        shares[0], shares[1], low if bars[0] <= x[0] else f"≤ {low}", middle, high if bars[-1] >= x[-1] else f"≥ {high}"
    )

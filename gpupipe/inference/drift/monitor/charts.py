"""Charts of the monitor page as SVG: stretched to the width of the page, so without text, and coloured by its style.

A page with 60 columns and 400 periods has hundreds of them, so each is a few hundred bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby

from gpupipe.inference.drift.column_drift import PeriodDrift, describe_runs
from gpupipe.inference.drift.monitor.distributions import SampleHistogram
from gpupipe.inference.drift.severity import LEAST_PSI, SEVERITIES
from gpupipe.report.text import number, percent, printable

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

"""Sparklines of the hardware counters below the timeline of the report, on the same axis of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from gpupipe.report.data import ReportData
from gpupipe.report.hardware_text import count_gpus, counter_title, format_counter, gpu_counter, main_counters

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT = 1000, 32  # units of a sparkline; its width on the page is fluid, its height is in pixels
FEWEST = 5  # values of a sparkline
MOST_GPUS = 4


@dataclass(frozen=True)
class SparklineRow:
    """Sparkline of one hardware counter; `mean` and `largest` have the unit."""

    title: str
    svg: Markup
    mean: str
    largest: str


def sparkline_rows(data: ReportData, total_seconds: float) -> list[SparklineRow]:
    """Return the sparklines of the main counters; none if the run was too short for `FEWEST` values.

    `total_seconds` is the length of the axis of time.
    """
    from markupsafe import Markup

    samples = data.samples
    if samples is None or total_seconds <= 0:
        return []
    rows = []
    n_gpus = count_gpus(samples["counters"])
    for name in main_counters(samples["counters"]):
        counter = samples["counters"][name]
        known = [value for value in counter["values"] if value is not None]
        if len(known) < FEWEST or int((gpu_counter(name) or ("0", ""))[0]) >= MOST_GPUS:
            continue
        title = counter_title(name, n_gpus)
        mean, largest = (format_counter(value, counter["unit"]) for value in (sum(known) / len(known), max(known)))
        svg = sparkline_svg(name, counter, samples, data.stages, total_seconds, f"{title}: mean {mean}, max {largest}")
        rows.append(SparklineRow(title, Markup(svg), mean, largest))
    return rows


def sparkline_svg(
    name: str,
    counter: Mapping[str, Any],
    samples: Mapping[str, Any],
    stages: Sequence[Mapping[str, Any]],
    total_seconds: float,
    label: str,
) -> str:
    """Return an area of the values over bands of the stages, without gaps where a value is missing.

    The top is the limit of a percentage, and the largest value of other counters.
    """
    values = counter["values"]
    period = samples["period_seconds"]
    start = samples["start_seconds"]
    top = max(value for value in values if value is not None)
    if counter["unit"] == "%":
        top = max(top, counter["limit"] or 0.0)
    points = []
    for i, value in enumerate(values):
        x = (start + (i + 0.5) * period) / total_seconds * WIDTH
        if value is not None and x <= WIDTH:
            points.append((round(x), round((HEIGHT - 1) * (1 - value / top) + 1 if top else HEIGHT, 1)))
    line = "L".join(f"{x} {y:g}" for x, y in points)
    area = f"M{points[0][0]} {HEIGHT}L{line}L{points[-1][0]} {HEIGHT}z" if points else ""
    outer = [stage for stage in stages if not stage["depth"]]
    bands = "".join(_band(stage, total_seconds) for stage in outer[1::2])
    kind = "gpu" if gpu_counter(name) else "cpu"
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(label)}"'
    return (
        f'<svg class="sparkline {kind}" {box}><path class="band" d="{bands}"/><path class="area" d="{area}"/>'
        f'<path class="line" d="M{line}"/></svg>'
    )


def _band(stage: Mapping[str, Any], total_seconds: float) -> str:
    left, width = (stage[key] / total_seconds * WIDTH for key in ("start_seconds", "seconds"))
    return f"M{left:.0f} 0h{width:.0f}v{HEIGHT}h-{width:.0f}z"

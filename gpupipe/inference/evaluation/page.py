"""Page of an evaluation: the first metrics over time with their intervals, each period, the slices and the drift."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from gpupipe.inference.drift.monitor.charts import HEIGHT, make_svg, strip_svg
from gpupipe.report.environment import html_environment
from gpupipe.report.text import number

if TYPE_CHECKING:
    from gpupipe.inference.evaluation.evaluation import EvaluatedPeriod, Evaluation

TEMPLATES = (Path(__file__).parent / "templates", Path(__file__).parent.parent / "drift" / "monitor" / "templates")
MOST_CHARTS = 6
MOST_SLICES = 200


def evaluation_page(found: Evaluation, data: str, evaluated: datetime) -> str:
    """Return the HTML document of an evaluation; it needs no other file, no script and no network.

    `data` is the name of the table, or ``""``; `evaluated` has a time zone.
    """
    from markupsafe import Markup

    model, last = found.drift.model, found.periods[-1] if found.periods else None
    first = last.by_name.get(found.metrics[0]) if last is not None and found.metrics else None
    unknown = last is None or first is None or first.value is None
    charts = [(name, Markup(interval_svg(found.periods, name))) for name in found.metrics[:MOST_CHARTS]]
    template = html_environment(*TEMPLATES).get_template("evaluation.html")
    return template.render(
        title=f"Evaluation of {model.name}" if model.name else "Evaluation",
        found=found,
        data=data,
        evaluated=f"{evaluated.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        tone="moderate" if unknown else "high" if first is not None and first.is_worse else "none",
        charts=charts if len(found.periods) > 1 else [],
        strip=Markup(strip_svg(found.drift.periods, found.drift.unit)) if len(found.drift.periods) > 1 else "",
        slices=found.slices[:MOST_SLICES],
    )


def interval_svg(periods: Sequence[EvaluatedPeriod], name: str) -> str:
    """Return the interval and value of a metric in each period, and a line at the metric of the run."""
    known = [(i, each.by_name[name], each.status) for i, each in enumerate(periods) if name in each.by_name]
    known = [each for each in known if each[1].value is not None]
    run = next((own.recorded for _, own, _ in known if own.recorded is not None), None)
    ends = [end for end in chain.from_iterable((own.low, own.high, run) for _, own, _ in known) if end is not None]
    low, high = min(ends, default=0.0), max(ends, default=0.0)

    def at(value: float | None) -> float:
        return round(4 + (HEIGHT - 8) * (high - (value or 0.0)) / ((high - low) or 1.0), 1)

    marks = [
        f'<path class="{status}" d="M{i + 0.5} {at(own.low)}V{at(own.high)}"/>'
        f'<path class="value" d="M{i + 0.3} {at(own.value)}h.4"/>'
        for i, own, status in known
    ]
    if run is not None:
        marks.append(f'<path class="run" d="M0 {at(run)}H{len(periods)}"/>')
    return make_svg("metric", len(periods), f"{name} by period, from {number(low)} to {number(high)}", "".join(marks))

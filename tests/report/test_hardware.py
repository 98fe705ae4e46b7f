"""Sparklines of hardware counters in the report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupipe.report.data import ReportData
from gpupipe.report.hardware import WIDTH, sparkline_rows
from gpupipe.report.render import render
from tests.report.html_page import HOSTILE, Page

SECONDS = 61.0  # of the run `prices`


def samples(n: int, start: float = 1.0, period: float = 10.0, **values: list[float | None]) -> dict[str, Any]:
    counters = {
        "process_cpu_percent": {"unit": "%", "limit": 200.0, "values": [100.0] * n},
        "gpu0_memory_bytes": {"unit": "B", "limit": 80 * 2**30, "values": [2**30 * (i + 1) for i in range(n)]},
        "gpu0_power_watts": {"unit": "W", "limit": 700.0, "values": [300.0] * n},
        **{name: {"unit": "%", "limit": 100.0, "values": own} for name, own in values.items()},
    }
    record = {"start_seconds": start, "period_seconds": period, "counters": counters}
    return record | {"devices": {"gpu0": HOSTILE}, "unavailable": {}}


def points(svg: str) -> list[tuple[float, float]]:
    line = re.search(r'class="line" d="M([^"]*)"', svg)
    assert line is not None
    return [(float(x), float(y)) for x, y in (point.split(" ") for point in line[1].split("L"))]


def test_a_value_is_drawn_in_the_middle_of_its_period_on_the_axis_of_the_stages(prices: ReportData) -> None:
    found = samples(7, gpu0_utilization_percent=[0.0, 50.0, None, 100.0, 100.0, 25.0, 25.0])
    rows = {row.title: row for row in sparkline_rows(replace(prices, samples=found), SECONDS)}
    assert list(rows) == ["GPU", "GPU memory", "CPU", "power"]
    drawn = points(rows["GPU"].svg)
    middles = [(1.0 + 10.0 * (i + 0.5)) / SECONDS * WIDTH for i in (0, 1, 3, 4, 5)]  # the last is after the last stage
    assert [x for x, _ in drawn] == [round(x) for x in middles]
    assert [y for _, y in drawn] == [32.0, 16.5, 1.0, 1.0, 24.2]
    assert (rows["GPU"].mean, rows["GPU"].largest) == ("50 %", "100 %")
    assert {y for _, y in points(rows["CPU"].svg)} == {16.5}  # half of two cores
    assert points(rows["GPU memory"].svg)[-1][1] < 8  # the axis of memory ends at the largest value


def test_the_page_has_the_sparklines_and_the_escaped_name_of_the_gpu(prices: ReportData, tmp_path: Path) -> None:
    page = Page(render(replace(prices, samples=samples(7)), tmp_path))
    text = (tmp_path / "report.html").read_text()
    assert text.count('class="sparkline gpu"') == 2 and text.count('class="sparkline cpu"') == 1
    assert "7.0 GiB max" in " ".join(page.text.split())
    assert HOSTILE not in text


def test_a_short_run_and_one_without_samples_have_none(prices: ReportData, tmp_path: Path) -> None:
    for record in (None, samples(4), samples(0)):
        render(replace(prices, samples=record), tmp_path)
        assert "sparkline " not in (tmp_path / "report.html").read_text().partition("</style>")[2]

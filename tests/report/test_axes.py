"""Axes of plots: scales, ticks and marks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.ticker import MaxNLocator

from gpupipe.report.axes import HEIGHT, WIDTH, Axes, Legend, legend_label, number_ticks, padded
from gpupipe.report.dependence_plots import time_ticks
from gpupipe.report.theme import COLORS

COLOR = COLORS["accent"]
NUMBER = r"-?\d+(?:\.\d+)?"
random = np.random.default_rng(8)
RANGES = [(center - width, center + width) for center, width in zip(
    random.normal(scale=10.0 ** random.integers(-12, 12, 60)), 10.0 ** random.uniform(-9, 9, 60), strict=True,
) if width > 1e-9 * abs(center)]  # fmt: skip


def paths(axes: Axes, selector: str) -> list[list[list[float]]]:
    """Return the points of each path whose style has a text."""
    root = ElementTree.fromstring(axes.svg())
    found = [each.get("d", "") for each in root.iter("{http://www.w3.org/2000/svg}path")
             if selector in each.get("style", "")]  # fmt: skip
    return [[[float(a), float(b)] for a, b in re.findall(rf"({NUMBER}) ({NUMBER})", path)] for path in found]


def texts(axes: Axes) -> list[str]:
    root = ElementTree.fromstring(axes.svg())
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3, 3), (0.001, 0.0011), (1e9, 1e9 + 7), *RANGES])
def test_ticks_are_those_of_matplotlib(low: float, high: float) -> None:
    expected = np.asarray(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    margin = 1e-9 * (high - low)
    expected = expected[(expected >= low - margin) & (expected <= high + margin)]
    found = [at for at, _ in number_ticks(low, high)]
    assert len(found) <= 7
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=margin)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1.7e308, 1.7e308), (0.0, 5e-324), (1e308, 1.7e308), (1e16, 1e16 + 2), (-1e-310, 1e-310), (0.1, 0.1)],
)
def test_no_range_of_numbers_is_too_large_or_too_small(low: float, high: float) -> None:
    axes = Axes("x", "y")
    axes.line([low, high], [high, low], COLOR)
    (points,) = paths(axes, f"stroke: {COLOR}")
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    limits = padded([low, high])
    assert np.isfinite(limits).all() and limits[0] < limits[1] and len(number_ticks(*limits)) <= 7


def test_points_are_where_the_ticks_say() -> None:
    x, y = random.normal(size=30) * 1e3, random.normal(size=30) * 1e-3
    axes = Axes("x", "y", x_limits=(-4000, 4000), y_limits=(-0.004, 0.004), x_ticks=[(-4000, "low"), (4000, "high")])
    axes.dots(x, y, COLOR, 3)
    ((*points,),) = paths(axes, "stroke-linecap: round")
    left, right, top, bottom = 0.17 * WIDTH, 0.97 * WIDTH, 0.04 * HEIGHT, 0.85 * HEIGHT
    np.testing.assert_allclose([a for a, _ in points], left + (x + 4000) / 8000 * (right - left), atol=0.051)
    np.testing.assert_allclose([b for _, b in points], bottom - (y + 0.004) / 0.008 * (bottom - top), atol=0.051)
    assert {"low", "high", "−0.002", "0.004"} <= set(texts(axes))


def test_values_that_are_not_finite_and_marks_without_points_are_not_drawn() -> None:
    axes = Axes("x", "y")
    axes.line([1, np.nan, 3, 4], [1, 2, np.inf, 4], COLOR)
    axes.dots([], [], COLORS["gpu"], 3)
    assert [len(points) for points in paths(axes, COLOR)] == [2]
    assert paths(axes, COLORS["gpu"]) == []
    assert "0.4" in texts(Axes("x", "y"))  # axes without marks


def test_an_area_begins_at_zero_and_a_reference_line_outside_of_the_limits_is_not_drawn() -> None:
    axes = Axes("x", "y", y_limits=(0.0, 10.0))
    axes.area([0, 1], [5, 5], COLOR, 0.5)
    axes.reference("horizontal", 11, COLORS["warn"])
    axes.reference("vertical", 0.5, COLORS["gpu"])
    ((start, *_),) = paths(axes, "opacity: 0.5")
    assert start[1] == pytest.approx(0.85 * HEIGHT, abs=0.06)
    assert paths(axes, COLORS["warn"]) == [[]] and len(paths(axes, COLORS["gpu"])[0]) == 1


@pytest.mark.parametrize("place", ["upper left", "upper right", "lower left", "lower right", "above"])
def test_a_legend_is_inside_the_figure_and_names_each_mark_once(place: str) -> None:
    axes = Axes("x", "y", top=0.87, legend=Legend(place, n_columns=2 if place == "above" else 1))
    for shape in ("dots", "rings", "v", "^", "dots"):
        axes.dots([1, 2], [1, 2], COLOR, 5, f"the {shape} <&", shape=shape)
    axes.line([1, 2], [1, 2], COLOR, label="the line")
    found = [text for text in texts(axes) if text.startswith("the ")]
    assert found == ["the dots <&", "the rings <&", "the v <&", "the ^ <&", "the line"]
    root = ElementTree.fromstring(axes.svg())
    for each in root.iter("{http://www.w3.org/2000/svg}text"):
        if (each.text or "").startswith("the "):
            assert 0 < float(each.get("x", 0)) < WIDTH - 40 and 0 < float(each.get("y", 0)) < HEIGHT


def test_labels_are_printable_and_at_most_24_characters() -> None:
    assert legend_label("\x1b[31m") == "\\x1b[31m"
    assert legend_label("a" * 25) == "a" * 23 + "…"


TIMES = [
    ("1850-01-01", "2260-12-31", "year"), ("2019-01-07", "2024-03-02", "year"), ("2023-11-05", "2024-04-02", "month"),
    ("2024-02-26", "2024-03-03", "D"), ("2024-02-28T20:00", "2024-03-01T04:00", "6h"),
    ("2024-12-31T23:50", "2025-01-01T00:10", "5min"), ("2024-03-01T10:00:01", "2024-03-01T10:00:25", "5s"),
    ("2024-03-01T10:00:00.2", "2024-03-01T10:00:00.9", "100ms"),
]  # fmt: skip


@pytest.mark.parametrize(("low", "high", "unit"), TIMES)
def test_ticks_of_times_are_on_the_calendar(low: str, high: str, unit: str) -> None:
    ends = [float(np.datetime64(end, "us").astype(int)) for end in (low, high)]
    ticks = time_ticks(*ends)
    assert 2 <= len(ticks) <= 8 and len({label for _, label in ticks}) == len(ticks)
    for place, _ in ticks:
        time = pd.Timestamp(int(place), unit="us")
        assert pd.Timestamp(low) <= time <= pd.Timestamp(high)
        assert unit not in ("year", "month") or getattr(time, f"is_{unit}_start")
        assert time == time.floor("D" if unit in ("year", "month") else unit)


def test_labels_of_times_name_what_changes() -> None:
    def labels(low: str, high: str) -> list[str]:
        return [label for _, label in time_ticks(*(float(np.datetime64(end, "us").astype(int)) for end in (low, high)))]

    assert labels("2023-11-05", "2024-04-02") == ["Dec", "2024", "Feb", "Mar", "Apr"]
    assert labels("2024-02-26", "2024-03-03") == ["26 Feb", "27 Feb", "28 Feb", "29 Feb", "Mar", "2 Mar", "3 Mar"]
    assert labels("2024-02-28T20:00", "2024-02-29T04:00") == ["21:00", "29 Feb", "03:00"]
    assert labels("2024-03-01T10:00:00.2", "2024-03-01T10:00:00.9")[0] == "10:00:00.2"
    assert time_ticks(-9.5e18, 9.5e18)[-1][1] == "200000"  # the margin of an axis exceeds the last time of NumPy
    assert labels("-002000-01-01", "2500-01-01") == ["−2000", "−1000", "0", "1000", "2000"]

"""Contributions of columns on the page: directions, strips, dependence and sentences."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import spearmanr

from gpupipe.report.contribution_section import CELL, REACH, axis_of, color_codes, swarm_offsets
from gpupipe.report.contributions import Direction, ExplainedColumn, TargetContributions
from gpupipe.report.data import ReportData
from gpupipe.report.dependence_plots import running_median
from gpupipe.report.example_rows import ExampleRow, example_sentences
from gpupipe.report.render import render
from tests.report.conftest import contributions
from tests.report.html_page import Page

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize("slope", [2.0, -1.5])
def test_the_direction_of_numbers_is_the_rank_correlation_of_known_values(slope: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 20, 500).astype(float)  # with ties
    moved = slope * x + rng.normal(0, 5, 500)
    x[::7] = np.nan
    found = ExplainedColumn(name="x", kind="numeric", values=x).direction(moved)
    assert found is not None
    assert found.correlation == pytest.approx(spearmanr(x, moved, nan_policy="omit").statistic)


def test_a_weak_correlation_has_no_sign_and_a_constant_has_no_direction() -> None:
    rng = np.random.default_rng(0)
    x, moved = rng.normal(size=500), rng.normal(size=500)
    column = ExplainedColumn(name="x", kind="numeric", values=x)
    assert column.direction(moved) == Direction(correlation=0.0)
    assert column.direction(np.ones(500)) is None
    assert ExplainedColumn(name="x", kind="numeric", values=np.ones(500)).direction(moved) is None
    assert ExplainedColumn(name="x").direction(moved) is None


def test_levels_and_nulls_are_compared_by_their_mean_where_they_have_enough_rows() -> None:
    levels = ["low"] * 50 + ["high"] * 40 + ["rare"] * 2 + [None] * 30
    moved = np.repeat([-0.2, 0.7, 5.0, -0.5], [50, 40, 2, 30])
    column = ExplainedColumn(name="c", kind="categorical", values=levels)
    assert column.direction(moved) == Direction(highest="high", lowest="missing")
    assert column.direction(moved + 1.0) == Direction(highest="high")


@given(arrays(np.int64, st.integers(1, 300), elements=st.integers(0, 200)))
def test_no_dot_of_a_strip_covers_another_one_of_its_cell(scaled: np.ndarray) -> None:
    offsets = swarm_offsets(scaled)
    dots = pd.DataFrame({"cell": scaled // CELL, "offset": offsets.round(9)})
    assert not dots.duplicated().any()
    assert np.abs(offsets).max() <= REACH + 1e-9
    assert (dots.groupby("cell").offset.min().abs() >= dots.groupby("cell").offset.max() - 4.0).all()  # both sides


@example(np.array([5e-324]))
@given(arrays(np.float64, st.integers(1, 50), elements=st.floats(-1e6, 1e6)))
def test_an_axis_has_all_values_and_few_ticks(values: np.ndarray) -> None:
    (low, high), ticks = axis_of(values)
    assert low <= values.min() and values.max() <= high and low < high
    assert 1 <= len(ticks) <= 7 and all(low <= tick <= high for tick in ticks) and 0.0 in ticks


def test_colours_run_from_low_to_high_and_nulls_and_levels_have_none() -> None:
    values = np.append(np.arange(1001.0), [np.nan, 1e9])
    codes = color_codes(ExplainedColumn(name="x", kind="numeric", values=values), len(values))
    assert (np.diff(codes[:1001]) >= 0).all() and codes[0] == 0 and codes[1000] == 6
    assert codes[1001] == -1 and codes[1002] == 6
    flags = color_codes(ExplainedColumn(name="x", kind="numeric", values=[0.0] * 99 + [1.0]), 100)
    assert flags.tolist() == [0] * 99 + [6]
    assert set(color_codes(ExplainedColumn(name="c", kind="categorical", values=["a"] * 5), 5)) == {-1}


def test_a_running_median_has_bins_of_equal_size_and_one_bin_for_each_of_few_values() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=500), rng.normal(size=500)
    at, medians = running_median(x, y)
    parts = np.array_split(np.argsort(x), 20)
    np.testing.assert_allclose(at, [np.median(x[part]) for part in parts])
    np.testing.assert_allclose(medians, [np.median(y[part]) for part in parts])
    steps = rng.integers(0, 9, 500).astype(float)
    at, medians = running_median(steps, y)
    np.testing.assert_array_equal(at, np.arange(9))
    np.testing.assert_allclose(medians, [np.median(y[steps == value]) for value in range(9)])


@given(
    arrays(np.float64, st.integers(1, 30), elements=st.floats(-9, 9).map(lambda value: round(value, 6))),
    st.floats(-5, 5),
)
def test_the_numbers_of_an_example_add_up(row: np.ndarray, base: float) -> None:
    columns = [ExplainedColumn(name=f"c{i}", kind="categorical", values=["a"]) for i in range(len(row))]
    found = TargetContributions(
        target="y", scale="log-odds", method="exact trees", columns=columns, values=row.reshape(1, -1, 1),
        base=np.array([base]), labels=("yes",), has_classes=True,
    )  # fmt: skip
    example = ExampleRow(title="", row=0, position=0, predicted=0.5, mean=0.5, label="yes", actual="no")
    _, *moves, last = example_sentences(found, example)
    named = [name for sentence in moves for name in re.findall(r"(c\d+) = a", sentence)]
    texts = re.findall(rf"([+{MINUS}]?[\d.]+)(?: log-odds)?\)", " ".join(moves))
    amounts = [float(text.replace(MINUS, "-")) for text in texts]
    assert len(named) == len(amounts) == len(set(named)) <= 4
    for name, amount in zip(named, amounts, strict=True):
        assert amount == pytest.approx(row[int(name[1:])], abs=0.06 + 0.01 * np.abs(row).max())
    assert all(abs(row[int(name[1:])]) >= np.sort(np.abs(row))[-4:].min() for name in named)
    rest = re.findall(rf"(\d+) other columns?: ([+{MINUS}]?[\d.]+) in total", moves[-1]) if moves else []
    assert (int(rest[0][0]) if rest else 0) == len(row) - len(named)
    total = float(last.split()[-2].replace(MINUS, "-"))
    assert total == pytest.approx(base + row.sum(), abs=0.06)


def test_the_columns_of_a_wide_table_are_bounded_on_the_page(churn: ReportData, tmp_path: Path) -> None:
    names = [f"column_{i}" for i in range(300)]
    wide = replace(churn, importances=(), contributions=[contributions(names, n_rows=500)])
    sizes = []
    for data in (wide, replace(wide, contributions=[contributions(names, n_rows=500, n_classes=30)]), churn):
        sizes.append(len(render(data, tmp_path).read_bytes()))
    assert max(sizes[:2]) - sizes[2] < 300_000
    page = Page(render(wide, tmp_path))
    assert "column_11" in page.text and "column_299" not in page.text
    assert "248 more columns" in page.text
    strips = [each for tag, each in page.elements if tag == "svg" and each.get("class") == "strip"]
    assert len(strips) == 12 and all(str(each["aria-label"]).startswith("contributions from") for each in strips)

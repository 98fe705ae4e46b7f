"""Statistics of two samples in cells, compared with SciPy and with their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import chi2, chi2_contingency, hypergeom, norm, wasserstein_distance

from gpupipe.inference.drift import column_comparison as comparison
from gpupipe.inference.drift.column_comparison import chi_squared_tail
from gpupipe.inference.drift.reference import EDGE_SHARES, DriftColumn, level_cells, number_edges
from gpupipe.inference.drift.severity import LEAST_PSI, Severity, severity_of
from gpupipe.inference.drift.verdict import compare_columns

COUNTS = st.lists(st.integers(0, 400), min_size=2, max_size=30)


def binned(x: Any, edges: Any) -> Any:
    """Return the counts of the cells of numbers without nulls."""
    inner = np.histogram(x, edges)[0]
    return np.array([0, (x < edges[0]).sum(), *inner, (x >= edges[-1]).sum()])


def column(x: Any) -> DriftColumn:
    edges = number_edges(np.quantile(x, EDGE_SHARES).tolist(), "float64")
    return DriftColumn("x", "numeric", binned(x, edges), edges)


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.data(), st.booleans())
def test_merged_cells_keep_every_row_and_are_large_enough_for_the_test(
    first: list[int], data: st.DataObject, is_ordered: bool
) -> None:
    second = data.draw(st.lists(st.integers(0, 400), min_size=len(first), max_size=len(first)))
    a, b = np.array(first), np.array(second)
    if not a.sum() or not b.sum():
        return
    merged = comparison.merge_cells(a, b, is_ordered)
    assert [part.sum() for part in merged] == [a.sum(), b.sum()]
    expected = (merged[0] + merged[1]) * min(a.sum(), b.sum()) / (a.sum() + b.sum())
    assert len(expected) == 1 or expected.min() >= comparison.LEAST_EXPECTED
    if len(expected) > 1:
        test = comparison.compare_cells(a, b, is_ordered)
        assert test.p_value == pytest.approx(chi2_contingency(merged, correction=False).pvalue, rel=1e-6, abs=1e-300)


def test_ordered_cells_are_merged_with_neighbours_only() -> None:
    a, b = np.array([0, 3, 4, 90, 1, 1, 100]), np.array([0, 1, 4, 80, 0, 9, 100])
    merged = comparison.merge_cells(a, b, is_ordered=True)
    assert [part.tolist() for part in merged] == [[7, 90, 2, 100], [5, 80, 9, 100]]


@pytest.mark.parametrize(
    ("k", "n", "others", "m"), [(0, 10_000, 8, 100), (3, 40, 0, 1_000), (1, 20, 1, 20), (2, 9, 7, 9)]
)
def test_rare_shares_have_the_probability_of_fishers_exact_test(k: int, n: int, others: int, m: int) -> None:
    found = comparison.compare_shares(k, n, others, m).p_value
    tails = hypergeom(n + m, k + others, m).cdf(others), hypergeom(n + m, k + others, m).sf(others - 1)
    assert found == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-6)


@given(st.integers(1, 70), st.floats(0, 3_000), st.floats(-12, 3))
def test_the_tail_of_the_chi_squared_distribution_is_that_of_scipy(freedom: int, large: float, power: float) -> None:
    for statistic in (0.0, large, 10**power):
        expected = chi2.sf(statistic, freedom)
        assert chi_squared_tail(statistic, freedom) == pytest.approx(expected, rel=1e-11, abs=1e-300)


@settings(max_examples=40, deadline=None)
@given(COUNTS, st.data())
def test_distances_are_those_of_scipy(first: list[int], data: st.DataObject) -> None:
    second = data.draw(st.lists(st.integers(0, 400), min_size=len(first), max_size=len(first)))
    a, b = np.array([0, *first, 0]), np.array([0, *second, 0])
    if not a.sum() or not b.sum():
        return
    assert comparison.jensen_shannon_distance(a, b) == pytest.approx(jensenshannon(a, b, base=2), abs=1e-7)
    edges = np.cumsum(data.draw(st.lists(st.floats(0.5, 9), min_size=len(first) + 1, max_size=len(first) + 1)))
    fine = (edges[:-1, None] + np.diff(edges)[:, None] * (np.arange(200) + 0.5) / 200).ravel()
    p, q = (np.repeat(counts[1:-1] / 200, 200) for counts in (a, b))
    mean = np.average(fine, weights=p)
    expected = wasserstein_distance(fine, fine, p, q) / np.sqrt(np.average((fine - mean) ** 2, weights=p))
    assert comparison.wasserstein_distance(edges, a, b) == pytest.approx(expected, rel=0.02, abs=2e-3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_probabilities_are_those_of_holms_definition(values: list[float]) -> None:
    p = np.array(values)
    adjusted = comparison.holm(p)
    for i, own in enumerate(p):
        before = [q for j, q in enumerate(p) if (q, j) <= (own, i)]
        expected = max(min(1.0, q * (len(p) - rank)) for rank, q in enumerate(sorted(before)))
        assert adjusted[i] == pytest.approx(expected)


def test_limits_are_the_divergences_of_normal_distributions() -> None:
    """The PSI of two normal distributions d standard deviations apart is d**2: an independent integral agrees."""
    x = np.linspace(-12, 12, 200_001)
    ends: list[tuple[Severity, float]] = [("low", 0.2), ("high", 0.5)]
    for severity, distance in ends:
        p, q = norm.pdf(x), norm.pdf(x, distance)
        assert np.trapezoid((q - p) * np.log(q / p), x) == pytest.approx(LEAST_PSI[severity], rel=1e-4)
    assert [severity_of(psi) for psi in (0.039, 0.04, 0.1, 0.25)] == ["none", "low", "moderate", "high"]


def test_a_shift_is_found_and_a_resample_is_not() -> None:
    """The promise: 0.3 standard deviations at 10,000 rows in 99 of 100 draws, and at most 1 of 100 resamples."""
    rng = np.random.default_rng(7)
    n_found = n_false = 0
    for _ in range(100):
        reference = column(rng.normal(size=10_000))
        for shift in (0.3, 0.0):
            counts = binned(rng.normal(shift, 1, 10_000), reference.edges)
            is_found = compare_columns([reference], {"x": counts})[0].severity != "none"
            n_found, n_false = n_found + (is_found and shift > 0), n_false + (is_found and not shift)
    assert n_found >= 99
    assert n_false <= 1


def test_hundreds_of_columns_of_few_rows_do_not_alarm_by_chance() -> None:
    rng = np.random.default_rng(3)
    columns, current = [], {}
    for i in range(300):
        own = column(rng.lognormal(0, 2, 2_000))
        columns.append(DriftColumn(f"c{i}", own.kind, own.counts, own.edges))
        current[f"c{i}"] = binned(rng.lognormal(0, 2, 150), own.edges)
    assert sum(each.severity != "none" for each in compare_columns(columns, current)) <= 1


@pytest.mark.parametrize(("n_levels", "n", "m"), [(400, 3_000, 300), (400, 40_000, 40_000), (3_000, 9_000, 9_000)])
def test_levels_that_were_frequent_by_chance_do_not_alarm(n_levels: int, n: int, m: int) -> None:
    rng, names = np.random.default_rng(0), [f"level {i}" for i in range(n_levels)]
    for _ in range(20):
        then, now = (np.bincount(rng.integers(0, n_levels, rows), minlength=n_levels) for rows in (n, m))
        levels, cells = level_cells(names, then, 0)
        seen = then > 0
        rows = {names[i]: int(now[i]) for i in range(n_levels) if seen[i]}
        own = [rows.pop(level) for level in levels]
        counts = np.array([0, now[~seen].sum(), sum(rows.values()), *own])
        (found,) = compare_columns([DriftColumn("x", "categorical", cells, levels=levels)], {"x": counts})
        assert found.severity == "none"


def test_a_large_table_does_not_alarm_by_itself() -> None:
    rng = np.random.default_rng(0)
    reference = column(rng.normal(size=200_000))
    shares = np.diff(norm.cdf(reference.edges, 0.05), prepend=0.0, append=1.0)
    counts = np.array([0, *rng.multinomial(50_000_000, shares / shares.sum())])
    (found,) = compare_columns([reference], {"x": counts})
    assert (found.is_significant, found.severity) == (True, "none")


@pytest.mark.parametrize(("n_null", "severity"), [(0, "none"), (1, "none"), (10, "low"), (1_000, "high")])
def test_a_new_share_of_nulls_is_weighed_by_its_size(n_null: int, severity: str) -> None:
    reference = column(np.random.default_rng(0).normal(size=10_000))
    counts = reference.counts // 10
    counts[0] = n_null
    (found,) = compare_columns([reference], {"x": counts})
    assert found.severity == severity

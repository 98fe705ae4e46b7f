"""Distributions of the churn generator: its lookup tables match the exact laws, and samples follow them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from gpupipe.datasets.churn.customers import SMALL, CustomerBlock
from gpupipe.datasets.churn.population import (
    CATEGORICALS,
    CELLS,
    CURVES,
    KNOTS,
    curve,
    gamma,
    levels,
    logistic,
    normal,
)

U = np.linspace(0.001, 0.999, 5_001)
# Curve to its distribution, or to transformed quantiles of one.
LAWS: dict[str, Any] = {
    "MonthlyCharges": stats.gamma(4.0, scale=4.0).ppf(U),
    "TotalCharges": stats.lognorm(0.15).ppf(U),
    "DataUsageGB": stats.lognorm(1.1, scale=np.exp(2.5)).ppf(U),
    "DataUsageGB odds": -0.12 * np.log1p(stats.lognorm(1.1, scale=np.exp(2.5)).ppf(U)),
    "DataUsageGB odds offline": -0.12 * np.log1p(0.05 * stats.lognorm(1.1, scale=np.exp(2.5)).ppf(U)),
    "Age": stats.norm(46.0, 16.0).ppf(U).clip(18.0, 95.0),
    "signup day": U,
    "signup hour": stats.norm(14.0, 5.0).ppf(U).clip(0.0, 23.999),
    "signup hour odds": 0.3 * np.sin(2 * np.pi * stats.norm(14.0, 5.0).ppf(U).clip(0.0, 23.999) / 24),
    "Churn": stats.logistic.ppf(U),
}


def test_every_distribution_is_tested_here() -> None:
    assert set(LAWS) == set(CURVES)


@pytest.mark.parametrize("name", LAWS)
def test_a_curve_is_the_quantiles_of_its_law(name: str) -> None:
    begin, rise = curve(name)
    found = np.interp(U, np.linspace(0, 1, KNOTS + 1), np.append(begin, begin[-1] + rise[-1] * 2.0**50))
    np.testing.assert_allclose(found, LAWS[name], rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("knots", "law"), [(normal(), stats.norm()), (gamma(), stats.gamma(4.0)), (logistic(), stats.logistic())]
)
def test_quantiles_are_exact_and_the_cells_at_the_ends_have_the_means_of_the_tails(knots: Any, law: Any) -> None:
    np.testing.assert_allclose(knots[1:-1], law.ppf(np.arange(1, KNOTS) / KNOTS), atol=1e-6)
    for cell, tail in ((knots[:2], law.ppf([0, 1 / KNOTS])), (knots[-2:], law.isf([1 / KNOTS, 0]))):
        mean = law.expect(lb=tail[0], ub=tail[1], conditional=True)
        assert cell.mean() == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("name", CATEGORICALS)
def test_levels_have_their_shares_to_a_cell(name: str) -> None:
    shares = CATEGORICALS[name][1]
    assert np.bincount(levels(name)) / CELLS == pytest.approx(shares, abs=1 / CELLS)


def test_counts_and_months_have_their_laws_to_a_cell() -> None:
    calls = np.bincount(levels("SupportCalls")) / CELLS
    assert calls == pytest.approx(stats.poisson(1.3).pmf(np.arange(len(calls))), abs=1.5 / CELLS)
    for months, skew in zip(levels("tenure").reshape(3, CELLS), (1.5, 0.9, 0.6), strict=True):
        below = np.cumsum(np.bincount(months, minlength=73)) / CELLS
        assert below == pytest.approx((np.arange(1, 74) / 73) ** (1 / skew), abs=1.5 / CELLS)


def test_cities_are_zipf_like_and_none_is_without_a_cell() -> None:
    shares = np.bincount(levels("City")) / CELLS
    expected = 1 / (np.arange(2_000) + 20)
    assert shares == pytest.approx(expected / expected.sum(), abs=1.5 / CELLS)
    assert shares.min() > 0


def test_a_number_is_the_value_of_its_curve_at_the_bits_of_its_row() -> None:
    draws = CustomerBlock(seed=5, start=11, n_rows=2_000)
    u = (draws.words("Age").view(np.uint64) / 2.0**64).astype(float)
    begin, rise = curve("Age")
    knots = np.append(begin, begin[-1] + rise[-1] * 2.0**50)
    np.testing.assert_allclose(draws.number("Age"), np.interp(u, np.linspace(0, 1, KNOTS + 1), knots), rtol=1e-12)


def test_values_from_one_random_word_are_uniform_and_independent() -> None:
    draws = CustomerBlock(seed=1, start=0, n_rows=40_000)
    cells = np.array([draws.cell(name) for name in SMALL])
    assert cells.min() < 5 and cells.max() > CELLS - 6
    assert [stats.kstest(row / CELLS, "uniform").pvalue > 1e-4 for row in cells] == [True] * len(SMALL)
    apart = np.corrcoef(cells) - np.eye(len(SMALL))
    assert np.abs(apart).max() < 5 / np.sqrt(cells.shape[1])


def test_churn_rates_match_the_log_odds() -> None:
    block = CustomerBlock(seed=2, start=0, n_rows=60_000)
    chance = 1 / (1 + np.exp(-block.log_odds))
    for low, high in ((0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1)):
        rows = (chance > low) & (chance <= high)
        expected, spread = chance[rows].mean(), np.sqrt((chance * (1 - chance))[rows].sum()) / rows.sum()
        assert block.churned[rows].mean() == pytest.approx(expected, abs=4 * spread)

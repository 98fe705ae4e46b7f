"""Quantiles of bins in words: marked as approximate, and no more exact than their bin."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from gpupipe.inference.drift.reference import EDGE_SHARES, DriftColumn, number_edges, time_edges
from gpupipe.inference.drift.words import bin_quantiles, describe_change
from gpupipe.typing import Array
from gpupipe.units import DAY_US

RNG = np.random.default_rng(5)
TRAINED = {
    "prices": np.round(RNG.lognormal(11, 0.8, 3000), -3),
    "shares": RNG.random(3000),
    "counts": RNG.poisson(3, 3000).astype(float),
    "small": RNG.normal(scale=1e-9, size=3000),
}


def column(values: Array, edges: Array | None = None, kind: str = "numeric") -> DriftColumn:
    edges = number_edges(np.quantile(values, EDGE_SHARES).tolist(), "float64") if edges is None else edges
    return DriftColumn("c", kind, counts(values, edges), edges)


def counts(values: Array, edges: Array) -> Array:
    cells = 1 + np.searchsorted(edges, values, side="right")
    return np.bincount(cells, minlength=len(edges) + 2)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("factor", [1.0, 1.7, 3.0])
def test_a_shown_median_is_that_of_the_data_to_the_width_of_its_bin(name: str, factor: float) -> None:
    trained, new = TRAINED[name], TRAINED[name] * factor
    known = column(trained)
    assert known.edges is not None
    (found,) = bin_quantiles(known.edges, counts(new, known.edges)[1:], (0.5,))
    median = float(pd.Series(new).median())
    if found.side == "above":
        assert median >= known.edges[-1]
    else:
        assert abs(found.value - median) <= found.width
        if "e" not in found.text("numeric") and name != "small":
            assert abs(float(found.rounded("numeric").replace(",", "")) - median) <= 1.5 * found.width


@pytest.mark.parametrize(
    ("values", "factor", "text"),
    [
        (np.repeat(np.arange(1000.0, 63000.0, 1000.0), 20), 1.5, r"median about 3\d,000 → about 4\d,000, "),
        (np.repeat(np.arange(62.0), 20), 9.0, r"median about 3\d → above 61.00, \d\d\.\d% above"),
        (np.repeat(np.arange(62.0) / 1000, 20), 1.3, r"median about 0\.03\d → about 0\.039, "),
    ],
)
def test_a_change_is_marked_as_that_of_bins(values: Array, factor: float, text: str) -> None:
    known = column(values)
    assert known.edges is not None
    assert re.match(text, describe_change(known, counts(values * factor, known.edges)))


def test_the_spread_and_the_median_of_times_are_marked_too() -> None:
    values = np.arange(0.0, 620.0)
    known = column(values)
    assert known.edges is not None
    wide = 310 + (values - 310) * 0.9
    assert describe_change(known, counts(wide, known.edges)) == "80% of values about 60 to 560 → 90 to 530"
    days = np.arange(62, dtype=np.int64) * DAY_US
    dated = column(days, time_edges(0, int(days[-1])), "datetime")
    assert dated.edges is not None
    assert describe_change(dated, counts(days[40:], dated.edges)).startswith("median about 1970-01-31")


def test_years_have_no_separator() -> None:
    years = np.repeat(np.arange(1959.0, 2021.0), 20)
    known = column(years)
    assert known.edges is not None
    assert re.match(r"median about 19\d\d → about 20\d\d", describe_change(known, counts(years + 20, known.edges)))

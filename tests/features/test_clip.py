"""clip against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

NULL = float("nan")
NUMBERS = st.lists(st.integers(-400, 400).map(lambda i: i / 4) | st.just(NULL), min_size=1, max_size=40)
BOUND = st.integers(-300, 300).map(lambda i: i / 4)


@settings(deadline=None, max_examples=40)
@given(x=NUMBERS, a=BOUND, b=BOUND, which=st.sampled_from(["lower", "upper", "both"]))
def test_values_beyond_a_bound_become_the_bound_and_null_stays_null(fit, x, a: float, b: float, which: str) -> None:
    low, high = min(a, b), max(a, b)
    bounds = (
        {"lower": low} if which == "lower" else {"upper": high} if which == "upper" else {"lower": low, "upper": high}
    )
    got = fit({"x": x}, [{"clip": {"columns": "x", **bounds}}], view="codes", schema={"x": "float"}).training["x"]
    np.testing.assert_array_equal(got, np.clip(x, bounds.get("lower", -np.inf), bounds.get("upper", np.inf)))


@settings(deadline=None, max_examples=40)
@given(x=NUMBERS.filter(lambda x: not np.isnan(x).all()))
def test_quantiles_are_those_of_the_training_rows(fit, x) -> None:
    made = fit({"x": x}, [{"clip": {"columns": "x", "quantiles": [0.1, 0.85]}}], view="codes")
    low, high = np.nanquantile(x, [0.1, 0.85])
    np.testing.assert_allclose(made.training["x"], np.clip(x, low, high), rtol=1e-6)
    np.testing.assert_allclose(made.serve({"x": [-1e6, 1e6]})["x"], [low, high], rtol=1e-6)


@pytest.mark.parametrize(
    "bounds",
    [
        {},
        {"lower": 2, "upper": 1},
        {"lower": 0, "quantiles": [0.1, 0.9]},
        {"quantiles": [0.9, 0.1]},
        {"quantiles": [0, 1.1]},
    ],
)
def test_bounds_that_make_no_sense_are_refused(fit, bounds: dict) -> None:
    with pytest.raises(ValidationError):
        fit({"x": [1.0]}, [{"clip": {"columns": "x", **bounds}}])

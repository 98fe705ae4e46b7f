"""log1p against NumPy in float64."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples


@examples(40)
@given(x=st.lists(st.floats(-0.75, 2.0**100, width=32), min_size=1, max_size=40))
def test_it_is_the_logarithm_of_one_more(fit, x: list[float]) -> None:
    got = fit({"x": x}, [{"log1p": "x"}]).training["x"]
    np.testing.assert_allclose(got, np.log1p(x), rtol=1e-6, atol=1e-37)


def test_at_minus_one_and_below_it_is_null(fit) -> None:
    x = [-5.0, -1.5, 0.0, 7.0, None]
    kept = fit({"x": x}, [{"log1p": "x"}], view="codes").training["x"]
    np.testing.assert_array_equal(np.isnan(kept), [True, True, False, False, True])
    assert np.isfinite(fit({"x": x}, [{"log1p": "x"}]).training["x"]).all()


def test_its_nulls_are_imputed_with_a_note_even_after_an_imputation(fit) -> None:
    made = fit({"x": [-5.0, 0.0, 7.0, None]}, [{"impute": "x"}, {"log1p": "x"}])
    assert np.isfinite(made.training["x"]).all()
    assert "x: 1 null imputed by the median" in made.notes


def test_at_serve_a_value_below_minus_one_is_filled_as_well(fit) -> None:
    made = fit({"x": [0.0, 1.0, 3.0]}, [{"log1p": "x"}])
    np.testing.assert_allclose(made.serve({"x": [-9.0, 3.0]})["x"], np.log1p([1.0, 3.0]), rtol=1e-6)

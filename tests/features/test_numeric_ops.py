"""Ops on numbers against scikit-learn and pandas in float64."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, RobustScaler, StandardScaler

from gpupipe.errors import ConfigError

CLOSE = {"rtol": 2e-5, "atol": 2e-6}
NUMBERS = arrays(np.float64, st.integers(2, 60), elements=st.floats(-1e5, 1e5, width=32))
WITH_NULLS = arrays(
    np.float64, st.integers(2, 60), elements=st.floats(-1e5, 1e5, width=32) | st.just(float("nan"))
).filter(lambda x: not np.isnan(x).all())


@settings(deadline=None)
@given(x=WITH_NULLS)
@pytest.mark.parametrize("strategy", ["median", "mean"])
def test_impute_fills_what_scikit_learn_fills(strategy, x):
    from tests.features.conftest import Fit  # hypothesis and function fixtures do not mix

    got = Fit(pd.DataFrame({"x": x}), [{"impute": {"columns": "x", "strategy": strategy}}]).training["x"]
    expected = SimpleImputer(strategy=strategy).fit_transform(x[:, None])[:, 0]
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-2 if strategy == "mean" else 0)

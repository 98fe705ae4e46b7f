"""Numbers that mark missing values become null."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe import FeatureProgram
from gpupipe.errors import ConfigError


def test_the_values_become_null_and_all_others_stay_as_they_are() -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([rng.normal(0, 1e3, 200), [np.nan, 0, -0.0, 1e30, -1e30, 9999, 9998.999, -999, -998.5]]).astype(
        "float32"
    )
    program = FeatureProgram([{"null_if": {"columns": "x", "values": [-999, 9999, 1.5e-30, 0]}}], view="codes")
    found = program.set_output(transform="pandas").fit_transform(pd.DataFrame({"x": x}))["x"].to_numpy()
    np.testing.assert_array_equal(found, pd.Series(x).where(~np.isin(x, [-999, 9999, 0])).to_numpy())


def test_later_ops_and_linear_models_treat_them_as_missing() -> None:
    frame = pd.DataFrame({"x": [1.0, -99.0, 3.0, 5.0], "z": [0.5, 1.0, 1.5, 2.0]})
    ops: list[Any] = [{"null_if": {"columns": "x", "values": [-99]}}, {"auto": "@all"}]
    found = FeatureProgram(ops).set_output(transform="pandas").fit_transform(frame)
    assert found["x_missing"].tolist() == [0, 1, 0, 0]
    filled = np.array([1, 3, 3, 5.0])
    np.testing.assert_allclose(found["x"], (filled - filled.mean()) / filled.std(), rtol=1e-6)


def test_with_as_the_column_is_kept() -> None:
    frame = pd.DataFrame({"x": [1.0, 99.0]})
    ops: list[Any] = [{"null_if": {"columns": "x", "values": [99], "as": "known"}}, {"auto": "@all"}]
    found = FeatureProgram(ops, view="codes").set_output(transform="pandas").fit_transform(frame)
    assert found["x"].tolist() == [1, 99]
    assert found["known"].isna().tolist() == [False, True]


@pytest.mark.parametrize("values", [[], [float("nan")], [1e39], ["a"]])
def test_values_that_float32_does_not_have_are_refused(values: list[object]) -> None:
    with pytest.raises(ConfigError, match="values"):
        FeatureProgram([{"null_if": {"columns": "x", "values": values}}]).fit(pd.DataFrame({"x": [1.0, 2.0]}))

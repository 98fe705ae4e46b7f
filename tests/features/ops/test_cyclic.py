"""cyclic against pandas and NumPy."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import ConfigError
from tests.examples import examples

# part → (its value, how many there are); months and days count from 1
PARTS = {
    "minute": (lambda t: t.dt.minute, 60),
    "hour": (lambda t: t.dt.hour, 24),
    "weekday": (lambda t: t.dt.day_of_week, 7),
    "day": (lambda t: t.dt.day - 1, 31),
    "month": (lambda t: t.dt.month - 1, 12),
    "day_of_year": (lambda t: t.dt.day_of_year - 1, 366),
}
TIMES = st.lists(st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1)) | st.none(), min_size=1, max_size=20)


@examples(40)
@given(times=TIMES, parts=st.lists(st.sampled_from(list(PARTS)), min_size=1, unique=True))
def test_parts_of_a_time_are_on_a_circle_and_null_at_its_center(fit, times: list, parts: list[str]) -> None:
    column = pd.Series(times, dtype="datetime64[us]")
    made = fit({"t": column}, [{"cyclic": {"columns": "t", "parts": parts}}])
    assert made.names == [f"t_{part}_{wave}" for part in parts for wave in ("sin", "cos")]
    for part in parts:
        value, period = PARTS[part]
        angle = np.asarray(value(column), float) * 2 * np.pi / period
        for wave, function in (("sin", np.sin), ("cos", np.cos)):
            expected = np.nan_to_num(function(angle))
            np.testing.assert_allclose(made.training[f"t_{part}_{wave}"], expected, atol=1e-6)


@examples(40)
@given(
    x=st.lists(st.integers(-5000, 5000).map(lambda i: i / 8), min_size=1, max_size=20),
    period=st.sampled_from([1.0, 7, 24, 360.5]),
    start=st.sampled_from([0.0, 24e9]),
)
def test_a_number_of_any_size_is_on_the_circle_of_its_period(fit, x: list, period: float, start) -> None:
    numbers = start + np.array(x)
    made = fit({"x": numbers}, [{"cyclic": {"columns": "x", "period": period}}])
    angle = np.mod(numbers, period) * 2 * np.pi / period
    assert made.names == ["x_sin", "x_cos"]
    np.testing.assert_allclose(made.training["x_sin"], np.sin(angle), atol=1e-3)
    np.testing.assert_allclose(made.training["x_cos"], np.cos(angle), atol=1e-3)


def test_seconds_since_1970_keep_the_hour_of_the_day(fit) -> None:
    seconds = 1_700_000_000 + np.arange(0, 86_400 * 365, 86_400 / 5)
    got = fit({"s": seconds}, [{"cyclic": {"columns": "s", "period": 86_400}}]).training
    angle = np.mod(seconds, 86_400) * 2 * np.pi / 86_400
    np.testing.assert_allclose(got["s_sin"], np.sin(angle), atol=1e-3)


def test_integers_of_float32_keep_a_period_of_two_and_larger_ones_are_null(fit) -> None:
    n = 2**24
    made = fit({"x": [0.0, 1.0, n - 1.0, n, n + 2.0, 1e37]}, [{"cyclic": {"columns": "x", "period": 2}}], view="codes")
    np.testing.assert_allclose(made.training["x_cos"], [1, -1, -1, 1, np.nan, np.nan], atol=1e-6)
    (warning,) = made.features.warnings
    assert warning.startswith("cyclic: 'x' spans 5e+36 periods, expected at most 8,388,608: ")


def test_the_end_of_a_period_is_next_to_its_start(fit) -> None:
    got = fit({"h": [0.0, 23.0, 12.0]}, [{"cyclic": {"columns": "h", "period": 24}}]).training.to_numpy()
    assert np.linalg.norm(got[0] - got[1]) < 0.3 < np.linalg.norm(got[0] - got[2])


def test_a_number_needs_a_period(fit) -> None:
    with pytest.raises(ConfigError, match=r"(?s)needs a period for the numeric column 'x'.*period: 24"):
        fit({"x": [1.0]}, [{"cyclic": "x"}])


def test_a_category_has_no_period(fit) -> None:
    with pytest.raises(ConfigError, match="cyclic takes datetime or numeric columns; 'c' is categorical"):
        fit({"c": ["a"]}, [{"cyclic": "c"}])

"""Targets that are series in time, and the split by time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import load_config
from gpupipe.pipeline.run import run_pipeline
from gpupipe.starter.series import lag_correlation

Init = Callable[..., Any]
N = 240


def walk(n: int = N, n_series: int = 1, share: float = 0.8, seed: int = 5) -> np.ndarray[Any, Any]:
    """Return autoregressive series, shape (n, n_series)."""
    noise = np.random.default_rng(seed).normal(size=(n, n_series))
    for i in range(1, n):
        noise[i] += share * noise[i - 1]
    return noise.round(4)


def with_noise(**columns: Any) -> pd.DataFrame:
    """Return columns and a column without effect, in random order."""
    n = len(columns["y"])
    return pd.DataFrame({**columns, "x": np.random.default_rng(0).normal(size=n)}).sample(frac=1, random_state=2)


TIMES: dict[str, Any] = {
    "days": pd.date_range("2021-03-01", periods=N),
    "working days": pd.bdate_range("2021-03-01", periods=N),
    "months in German": pd.date_range("1990-01-01", periods=N, freq="MS").strftime("%d.%m.%Y"),
    "years": 1750 + np.arange(N),
    "decimal years": (1950 + np.arange(N) / 12).round(3),
}


@pytest.mark.parametrize("times", TIMES)
def test_a_series_is_tested_on_later_rows(init: Init, times: str) -> None:
    made = init(with_noise(year=TIMES[times], y=walk()[:, 0]))
    assert made.values["split"] == {"cv": 5, "time": "year"}
    assert "y correlates by 0." in made.text
    assert any(line.startswith("# split: {cv: 5, stratify: false, shuffle: true") for line in made.text.splitlines())
    assert "drop" not in made.source  # a smooth series is predicted well by its time: no leak


def test_a_trend_is_a_series_and_noise_is_not(init: Init) -> None:
    noise = np.random.default_rng(1).normal(size=N)
    days = TIMES["days"]
    assert init(with_noise(day=days, y=np.arange(N) + noise)).values["split"]["time"] == "day"
    assert "time" not in init(with_noise(day=days, y=noise)).values["split"]


def test_series_of_several_places_are_split_by_time_and_offer_the_place(init: Init) -> None:
    table = pd.DataFrame(walk(60, 20), TIMES["days"][:60]).rename_axis("day").melt(ignore_index=False, var_name="shop")
    made = init(with_noise(**table.reset_index().rename(columns={"value": "y"})))
    assert made.values["split"] == {"cv": 5, "time": "day"}
    assert "with its previous value of the same shop" in made.text


def test_a_few_years_of_many_persons_are_split_by_person(init: Init) -> None:
    level = np.random.default_rng(2).normal(size=100)
    table = pd.DataFrame(walk(6, 100) + level, range(2001, 2007)).rename_axis("year").melt(ignore_index=False)
    made = init(with_noise(**table.reset_index().rename(columns={"value": "y", "variable": "person"})))
    assert made.values["split"] == {"cv": 5, "group": "person", "seed": 0}


@pytest.mark.parametrize("unit", ["D", "s"])
def test_customers_with_a_date_keep_random_folds_and_the_time_is_offered(init: Init, unit: Any) -> None:
    generator = np.random.default_rng(3)
    n = 1_500
    size = {"D": 900, "s": 900 * 86_400}[unit]
    signup = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.sort(generator.integers(0, size, n)), unit=unit)
    made = init(with_noise(signup=signup, y=np.linspace(-1, 1, n) + generator.normal(size=n)))
    assert made.values["split"]["shuffle"] is True
    assert "# split: {time: signup, test_size: 0.2}" in made.text.splitlines()


def test_a_time_with_nulls_is_not_offered(frame: pd.DataFrame, init: Init) -> None:
    days = pd.Series(pd.date_range("2020-01-01", periods=len(frame))).where(frame.index > 3)
    assert "time: day" not in init(frame.assign(day=days)).text


def test_classes_of_a_series_are_split_once_and_it_runs(init: Init, tmp_path: Path) -> None:
    made = init(with_noise(day=TIMES["days"], y=np.where(walk()[:, 0] > 0, "wet", "dry")))
    assert made.values["split"] == {"time": "day", "test_size": 0.2}
    overrides = ["report.enabled=false", "evaluate.importance=false", "models=[logistic_regression]"]
    run = run_pipeline(load_config(made.path, overrides), tmp_path / "run")
    assert 0 <= run.metrics["roc_auc"] <= 1


def test_the_correlation_with_the_previous_row_is_that_of_pandas() -> None:
    values = walk(2_000)
    assert lag_correlation(values) == pytest.approx(pd.Series(values[:, 0]).autocorr(1), abs=0.01)
    two = np.concatenate([values, -values])
    codes = np.repeat([0, 1], len(values))
    assert lag_correlation(two, codes) == pytest.approx(lag_correlation(values), abs=0.01)

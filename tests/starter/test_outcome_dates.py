"""Dates of the outcome, and numbers derived from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

N = 800
Init = Callable[..., Any]


@pytest.fixture(scope="module")
def dates() -> dict[str, Any]:
    """Loans that are due after a year, and paid back then or, if they default, after a shorter time."""
    rng = np.random.default_rng(31)
    default = rng.random(N) < 0.25
    granted = pd.Timestamp("2019-05-01") + pd.to_timedelta(rng.integers(0, 900, N), "D")
    asked = granted - pd.to_timedelta(rng.integers(2, 30, N), "D")
    days = np.where(default, rng.integers(20, 365, N), 365)
    ended = granted + pd.to_timedelta(days, "D")
    income = rng.gamma(4, 700, N).round()
    return {
        "rng": rng,
        "y": default.astype(int),
        "asked": asked,
        "granted": granted,
        "ended": ended,
        "days": days,
        "income": income,
    }


def table(dates: dict[str, Any], **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({name: dates[name] for name in ("income", "asked", "granted")} | columns | {"y": dates["y"]})


def test_a_date_that_comes_earlier_for_a_class_is_dropped_with_the_evidence(dates: dict[str, Any], init: Init) -> None:
    made = init(table(dates, ended=dates["ended"]))
    n = int(dates["y"].sum())
    assert made.source["drop"] == ["ended"]
    assert f"not 365 in {n} of {n} rows with y = 1, and in none of the other {N - n}" in made.text
    assert "split: {time: asked, test_size: 0.2}" in made.text  # the earliest date, not that of the outcome


def test_a_difference_that_predicts_the_class_far_better_than_both_dates(dates: dict[str, Any], init: Init) -> None:
    days = np.where(dates["y"] == 1, dates["rng"].normal(60, 15, N), dates["rng"].normal(120, 20, N))
    ended = (dates["granted"] + pd.to_timedelta(days, "D")).floor("s")
    weeks = (days / 7 + dates["rng"].uniform(-0.5, 0.5, N)).round(1)
    made = init(table(dates, ended=ended, weeks=weeks))
    assert made.source["drop"] == ["ended", "weeks"]
    assert "it is the time between granted and ended in weeks; ended: ended - granted alone" in " ".join(
        made.text.split("\n    # ")
    )
    assert "alone predicts y with ROC-AUC 0.9" in made.text


def test_the_last_day_of_an_extract_for_all_others(dates: dict[str, Any], init: Init) -> None:
    seen = pd.Series(dates["ended"]).where(dates["y"] == 1, pd.Timestamp("2024-01-31"))
    made = init(table(dates, seen=seen))
    assert made.source["drop"] == ["seen"]


def test_the_hours_until_a_case_is_closed(dates: dict[str, Any], init: Init) -> None:
    hours = dates["rng"].gamma(2, 30, N)
    closed = (dates["granted"] + pd.to_timedelta(hours, "h")).floor("s")
    made = init(table(dates, closed=closed).assign(y=hours.round(2)))
    assert made.source["drop"] == ["closed"]


@pytest.mark.parametrize("effect", [0, 3])
def test_dates_that_are_known_in_time_are_kept(dates: dict[str, Any], init: Init, effect: float) -> None:
    """A due date that is a little later for one class, and a birth date."""
    due = dates["granted"] + pd.to_timedelta(dates["rng"].integers(20, 40, N) + effect * dates["y"], "D")
    born = pd.Timestamp("1960-01-01") + pd.to_timedelta(dates["rng"].integers(0, 15_000, N), "D")
    made = init(table(dates, due=due, born=born))
    assert "drop" not in made.source
    assert "split: {time: born" in made.text


def test_a_merely_strong_difference_is_reported_and_not_offered_as_time(dates: dict[str, Any], init: Init) -> None:
    days = np.where(dates["y"] == 1, dates["rng"].integers(20, 80, N), dates["rng"].integers(40, 100, N))
    made = init(
        pd.DataFrame(
            {"ended": dates["granted"] + pd.to_timedelta(days, "D"), "granted": dates["granted"], "y": dates["y"]}
        )
    )
    assert "drop" not in made.source
    assert "ended dominates the prediction (ended - granted alone predicts y with ROC-AUC 0.7" in " ".join(
        made.text.split("\n# ")
    ).replace("\n", " ")
    assert "time: granted" in made.text

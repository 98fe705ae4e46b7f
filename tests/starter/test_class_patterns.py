"""Columns whose nulls, or whose most frequent value, state the target; and legitimate columns that are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.starter.leaks import find_leaks
from gpupipe.starter.sample import FOLDS, NumericSample

N = 900
CLASSES = ("active", "lapsed", "closed")
Columns = dict[str, Any]


def sample_of(columns: Columns, y: Any, task: Any = "multiclass", times: frozenset[str] = frozenset()) -> NumericSample:
    """Return a sample in which columns of text are coded."""
    coded = frozenset(name for name, x in columns.items() if np.asarray(x).dtype == object)
    codes = {name: pd.factorize(np.asarray(columns[name], object), sort=True)[0].astype(float) for name in coded}
    codes = {name: np.where(x < 0, np.nan, x) for name, x in codes.items()}
    numbers = {name: np.asarray(codes.get(name, x), float) for name, x in columns.items()}
    fold = np.random.default_rng(3).permutation(len(y)) % FOLDS
    return NumericSample(numbers, np.asarray(y, float), task, fold, True, coded, times)


def leaks_of(columns: Columns, y: Any, task: Any = "multiclass") -> dict[str, str]:
    noise = np.random.default_rng(8).normal(size=len(y))
    return find_leaks(
        sample_of({**columns, "noise": noise}, y, task), "state", CLASSES if task != "regression" else ()
    ).leaks


def three_classes(rng: np.random.Generator) -> Any:
    return rng.choice(3, N, p=[0.5, 0.3, 0.2])


def amounts(rng: np.random.Generator) -> Any:
    return rng.gamma(3, 20, N).round(1) + 5


def note(rng: np.random.Generator, rows: Any) -> Any:
    return pd.Series(rng.choice(["fee", "trip", "debt", "move"], N)).where(rows, None).to_numpy(object)


Make = Callable[[np.random.Generator, Any], Columns]
LEAKS: dict[str, Make] = {
    "filled for a class": lambda rng, y: {"a": np.where(y == 1, amounts(rng), np.nan)},
    "filled for all but a class": lambda rng, y: {"a": np.where(y == 1, np.nan, amounts(rng))},
    "the same nulls twice": lambda rng, y: {"a": note(rng, y == 1), "b": np.where(y == 1, amounts(rng), np.nan)},
    "the same nulls four times": lambda rng, y: {name: np.where(y == 1, amounts(rng), np.nan) for name in "abcd"},
    "a repeat in which others are 0 or null": lambda rng, y: {
        "a": note(rng, y == 1),
        "b": np.where(y == 1, amounts(rng), np.where(rng.random(N) < 0.3, 0, np.nan)),
    },
    "filled for most of a class": lambda rng, y: {"a": note(rng, (y == 2) & (rng.random(N) < 0.6))},
    "0 for all but a class": lambda rng, y: {"a": np.where(y == 2, amounts(rng), 0)},
    "a fixed term, and less for a class": lambda rng, y: {"a": np.where(y == 2, rng.integers(1, 36, N), 36)},
    "-1 for all but a class": lambda rng, y: {"a": np.where(y == 2, rng.integers(0, 30, N), -1)},
    "one wrong row": lambda rng, y: {"a": np.where((y == 1) ^ (np.arange(N) == 7), amounts(rng), np.nan)},
}


@pytest.mark.parametrize("way", LEAKS)
def test_a_pattern_that_states_a_class_is_a_leak(way: str) -> None:
    rng = np.random.default_rng(21)
    y = three_classes(rng)
    columns = LEAKS[way](rng, y)
    assert set(leaks_of(columns, y)) == set(columns)


KEPT: dict[str, Make] = {
    "counts with many zeros": lambda rng, y: {"a": rng.poisson(0.2 + 0.5 * y)},
    "an optional field": lambda rng, y: {"a": np.where(rng.random(N) < 0.1 + 0.3 * y, amounts(rng), np.nan)},
    "a rare flag": lambda rng, y: {"a": np.where(rng.random(N) < 0.02 + 0.03 * (y == 2), 1.0, np.nan)},
    "a test of suspected cases": lambda rng, y: {
        "a": np.where(rng.random(N) < np.array([0.05, 0.9, 0.8])[y], amounts(rng), np.nan)
    },
    "-1 for never": lambda rng, y: {"a": np.where(rng.random(N) < 0.7 - 0.2 * y, -1, rng.integers(0, 300, N))},
    "a flag that marks a class": lambda rng, y: {
        "a": y == 1,
        "b": y + rng.normal(0, 0.28, N),
        "c": y + rng.normal(0, 0.28, N),
    },
    "few rows": lambda rng, y: {"a": np.where((y == 2) & (np.cumsum(y == 2) <= 12), 1.0, np.nan)},
}


@pytest.mark.parametrize("way", KEPT)
def test_a_legitimate_pattern_is_kept(way: str) -> None:
    rng = np.random.default_rng(22)
    y = three_classes(rng)
    assert not leaks_of(KEPT[way](rng, y), y)


def test_the_evidence_has_the_rows_on_both_sides() -> None:
    y = np.repeat([0, 1, 2], [400, 300, 200])
    found = leaks_of({"a": np.where(y == 1, np.arange(N), np.nan), "b": np.where(y == 2, np.nan, np.arange(N))}, y)
    assert found["a"] == "filled in 300 of 300 rows with state = lapsed, and in none of the other 600"
    assert found["b"] == "null in 200 of 200 rows with state = closed, and in none of the other 700"


@pytest.mark.parametrize(
    ("wanted", "make"),
    [
        ("filled in 540 of 540 rows with state other than 0, and in none of the other 360", lambda rng, y: y > 0),
        ("filled in 135 of 135 rows with state above 400.5, and in none of the other 765", lambda rng, y: y > 400.5),
        ("", lambda rng, y: (y > 0) & (rng.random(N) < 0.8)),
        ("", lambda rng, y: (y > 400.5) ^ (rng.random(N) < 0.05)),
    ],
)
def test_nulls_that_state_zero_or_a_range_of_a_number(wanted: str, make: Any) -> None:
    rng = np.random.default_rng(23)
    y = np.concatenate([np.zeros(360), np.linspace(1, 400.5, 405), np.linspace(401, 900, 135)])
    assert leaks_of({"a": np.where(make(rng, y), amounts(rng), np.nan)}, y, "regression").get("a", "") == wanted


def test_a_repeat_does_not_hide_a_doubtful_column() -> None:
    """3 % of the filled rows have another class: the column must add to a model, without its repeat."""
    rng = np.random.default_rng(24)
    y = rng.integers(0, 2, N)
    rows = (y == 1) & (rng.random(N) < 0.6)
    rows |= rng.random(N) < 0.01
    columns = {"a": note(rng, rows), "b": np.where(rows, amounts(rng), 0)}
    assert "a" in leaks_of(columns, y, "binary")


def test_of_a_free_text_the_nulls_are_compared(init: Callable[..., Any]) -> None:
    rng = np.random.default_rng(25)
    y = rng.integers(0, 2, 400)
    text = pd.Series([f"the parcel {i} was sent back to the shop" for i in range(400)]).where(y == 1)
    assert init(pd.DataFrame({"x": rng.normal(size=400), "story": text, "y": y})).source["drop"] == ["story"]

"""Columns that give the target away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from gpupipe.starter.leaks import area_under_curve

Init = Callable[..., Any]


def test_another_form_of_a_label_is_dropped_with_the_figure(frame: pd.DataFrame, init: Init) -> None:
    made = init(frame.assign(status=frame["y"].map({"Yes": 17, "No": 3})))
    assert made.source["drop"] == ["status"]
    assert made.comment_on("- status") == "leak: alone it predicts y, ROC-AUC 1.000 on rows not learned from"


def test_a_number_made_of_the_target_is_dropped_even_among_wild_values(init: Init) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=500)
    y = np.exp(x + generator.normal(size=500))
    y[:3] *= 1_000
    made = init(pd.DataFrame({"x": x, "taxed": y * 1.19 + 1, "y": y}))
    assert made.source["drop"] == ["taxed"]
    assert "R² of the ranks" in made.comment_on("- taxed")


def test_a_column_that_is_missing_where_the_label_is_no_is_a_leak(frame: pd.DataFrame, init: Init) -> None:
    reason = pd.Series(np.random.default_rng(0).choice(["price", "move"], len(frame))).where(frame["y"] == "Yes")
    assert init(frame.assign(reason=reason)).source["drop"] == ["reason"]


def test_a_class_in_other_words_is_a_leak(frame: pd.DataFrame, init: Init) -> None:
    grade = np.random.default_rng(0).choice(["a", "b", "c"], len(frame))
    made = init(frame.assign(grade=pd.Series(grade).map({"a": "good", "b": "fair", "c": "poor"}), y=grade))
    assert made.source["drop"] == ["grade"]
    assert "balanced accuracy 1.000" in made.comment_on("- grade")


def test_many_levels_are_no_leak(init: Init) -> None:
    generator = np.random.default_rng(0)
    shops = [f"shop {i}" for i in generator.integers(0, 400, 1_000)]
    made = init(pd.DataFrame({"shop": shops, "x": generator.normal(size=1_000), "y": generator.normal(size=1_000)}))
    assert "drop" not in made.source


def test_a_strong_honest_column_is_no_leak(init: Init) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=1_000)
    made = init(pd.DataFrame({"x": x, "y": x + 0.2 * generator.normal(size=1_000)}))
    assert "drop" not in made.source


def test_the_area_under_the_curve_is_that_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    y, score = generator.integers(0, 2, 200), generator.integers(0, 20, 200)
    assert np.isclose(area_under_curve(y, score), roc_auc_score(y, score))

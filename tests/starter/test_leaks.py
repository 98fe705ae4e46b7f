"""Detection of columns that leak the target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from gpupipe.starter.power import area_under_curve, together
from gpupipe.starter.sample import FOLDS, NumericSample

Init = Callable[..., Any]


def test_another_form_of_a_label_is_dropped_with_the_figure(frame: pd.DataFrame, init: Init) -> None:
    made = init(frame.assign(status=frame["y"].map({"Yes": 17, "No": 3})))
    assert made.source["drop"] == ["status"]
    assert made.comment_on("- status") == "leak: each of its values belongs to one y, correct in 100% of 300 rows"
    assert "To keep a column, delete its line:" in made.text


def test_a_number_derived_from_the_target_is_dropped_despite_outliers(init: Init) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=500)
    y = np.exp(x + generator.normal(size=500))
    y[:3] *= 1_000
    made = init(pd.DataFrame({"x": x, "taxed": y * 1.19 + 1, "y": y}))
    assert made.source["drop"] == ["taxed"]
    assert "R² of the ranks" in made.comment_on("- taxed")


def test_a_column_that_is_null_for_one_class_is_a_leak(frame: pd.DataFrame, init: Init) -> None:
    reason = pd.Series(np.random.default_rng(0).choice(["price", "move"], len(frame))).where(frame["y"] == "Yes")
    assert init(frame.assign(reason=reason)).source["drop"] == ["reason"]


def test_a_class_in_other_words_is_a_leak(frame: pd.DataFrame, init: Init) -> None:
    grade = np.random.default_rng(0).choice(["a", "b", "c"], len(frame))
    made = init(frame.assign(grade=pd.Series(grade).map({"a": "good", "b": "fair", "c": "poor"}), y=grade))
    assert made.source["drop"] == ["grade"]
    assert "each of its values belongs to one y" in made.comment_on("- grade")


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("n_fine", [12, 150])
@pytest.mark.parametrize("share_known", [1.0, 0.4])
def test_a_finer_label_is_a_leak_with_any_number_of_levels_and_nulls(
    init: Init, task: str, n_fine: int, share_known: float
) -> None:
    generator = np.random.default_rng(0)
    n = 2_000
    fine = generator.integers(0, n_fine, n)
    known = generator.random(n) < share_known
    table = pd.DataFrame(
        {
            "x": generator.normal(size=n) + fine % 3,
            "cause": pd.Series([f"cause {i}" for i in fine]).where(known),
            "y": np.array(["low", "mid", "high"])[fine % 3 if task == "multiclass" else fine % 2],
        }
    )
    made = init(table)
    assert made.source["drop"] == ["cause"]
    assert "each of its values belongs to one y" in made.text


def test_a_colour_for_bands_of_a_number_is_a_leak_and_so_is_a_finer_one(init: Init) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=2_000)
    y = x + generator.normal(size=2_000)
    colour = pd.cut(y, [-np.inf, -1, 0.5, np.inf], labels=["green", "amber", "red"]).astype(str)
    shade = pd.cut(y, [-np.inf, -2, -1, 0, 0.5, 2, np.inf], labels=list("abcdef")).astype(str)
    made = init(pd.DataFrame({"x": x, "colour": colour, "shade": shade, "is_high": y > 1, "y": y.round(4)}))
    assert made.source["drop"] == ["colour", "shade", "is_high"]
    assert made.comment_on("- colour") == "leak: each of its 3 values is one band of y, without overlap"


def test_a_finer_label_and_a_band_with_a_few_errors_are_leaks(init: Init) -> None:
    generator = np.random.default_rng(0)
    n = 2_000
    score = generator.normal(size=n)
    x = score + generator.normal(size=n)
    slips = generator.random(n) < 0.02
    colour: Any = pd.cut(score, [-np.inf, -1, 0.5, np.inf], labels=["green", "amber", "red"]).astype(str)
    colour = np.where(slips, generator.permutation(colour), colour)
    table = pd.DataFrame({"x": x, "colour": colour})
    assert init(table.assign(y=score.round(4))).source["drop"] == ["colour"]
    assert init(table.assign(y=np.where(score > 0.5, "hot", "cold"))).source["drop"] == ["colour"]


def test_a_colour_whose_bands_are_not_those_of_the_classes_is_a_leak(init: Init) -> None:
    """The class is another band of the score: a color overlaps at most the classes at its limits."""
    generator = np.random.default_rng(0)
    score = generator.normal(size=2_000)
    table = pd.DataFrame(
        {
            "x": score + 2 * generator.normal(size=2_000),
            "region": generator.choice(["north", "south", "west"], 2_000),
            "colour": pd.cut(
                score, [-np.inf, -0.8, 0.1, 1.0, np.inf], labels=["green", "yellow", "amber", "red"]
            ).astype(str),
            "y": pd.cut(score, [-np.inf, -0.3, 0.6, np.inf], labels=["low", "mid", "high"]).astype(str),
        }
    )
    made = init(table)
    assert made.source["drop"] == ["colour"]
    assert "overlap like bands of one quantity" in made.comment_on("- colour")


def test_a_place_that_predicts_the_class_like_other_columns_is_kept(init: Init) -> None:
    """The species of a penguin and its island overlap without a cycle too: most species live on one island."""
    generator = np.random.default_rng(0)
    species = generator.integers(0, 3, 900)
    homes = np.array([["east", "west", "south"], ["west", "west", "west"], ["south", "south", "south"]])
    table = pd.DataFrame(
        {
            "bill": 3.0 * species + generator.normal(size=900),
            "weight": 3.0 * (species == 1) + generator.normal(size=900),
            "island": homes[species, generator.integers(0, 3, 900)],
            "species": np.array(["Adelie", "Gentoo", "Chinstrap"])[species],
        }
    )
    assert "drop" not in init(table, "species").source


def test_a_coarser_label_is_a_leak(init: Init) -> None:
    generator = np.random.default_rng(0)
    grade = generator.integers(0, 6, 2_000)
    table = pd.DataFrame(
        {
            "x": grade + 2 * generator.normal(size=2_000),
            "colour": np.array(["green", "green", "amber", "amber", "red", "red"])[grade],
            "y": np.array(list("ABCDEF"))[grade],
        }
    )
    made = init(table)
    assert made.source["drop"] == ["colour"]
    assert "is one group of classes of y" in made.comment_on("- colour")


def test_nulls_of_several_columns_that_determine_the_class_together_are_leaks(init: Init) -> None:
    generator = np.random.default_rng(0)
    n = 1_000
    first, second = generator.random(n) < 0.5, generator.random(n) < 0.5
    numbers = generator.normal(size=(n, 3)).round(3)
    table = pd.DataFrame(numbers, columns=["x", "opened", "closed"])
    opened, closed = table["opened"].where(first), table["closed"].where(second)
    table = table.assign(opened=opened, closed=closed, y=np.where(first ^ second, "Yes", "No"))
    made = init(table)
    assert made.source["drop"] == ["opened", "closed"]
    assert made.comment_on("- opened") == "leak: the nulls of opened, closed determine y"


def test_a_column_filled_in_after_the_fact_is_a_leak_though_not_every_case_has_it(init: Init) -> None:
    generator = np.random.default_rng(0)
    n = 1_000
    y = generator.random(n) < 0.3
    boat = pd.Series(generator.choice(["2", "4", "C"], n)).where(y & (generator.random(n) < 0.7))
    made = init(pd.DataFrame({"x": generator.normal(size=n) + y, "boat": boat, "y": np.where(y, "Yes", "No")}))
    assert made.source["drop"] == ["boat"]
    assert made.comment_on("- boat") == "leak: filled in 198 of 277 rows with y = Yes, and in none of the other 723"


def test_one_of_several_columns_that_predict_the_class_is_kept(init: Init) -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 1_000)
    petals = {f"petal_{i}": (3 * y + generator.normal(0, 0.5, 1_000)).round(3) for i in range(3)}
    noise = generator.normal(size=1_000).round(3)
    assert "drop" not in init(pd.DataFrame({**petals, "noise": noise, "y": y})).source


def test_a_column_that_a_model_depends_on_is_kept_with_a_warning(init: Init) -> None:
    generator = np.random.default_rng(0)
    duration, x = generator.normal(size=(2, 3_000)).round(3)
    y = np.where(2 * duration + x + generator.normal(size=3_000) > 0, "Yes", "No")
    made = init(pd.DataFrame({"duration": duration, "x": x, "y": y}))
    assert "drop" not in made.source
    assert "duration dominates the prediction (ROC-AUC 0." in made.text
    assert "x dominates" not in made.text


def test_a_column_that_explains_zeros_is_kept(init: Init) -> None:
    generator = np.random.default_rng(0)
    card = generator.random(2_000) < 0.8
    x = generator.normal(size=2_000)
    spent = np.where(card, np.exp(5 + 0.5 * x + 0.5 * generator.normal(size=2_000)), 0).round(2)
    made = init(
        pd.DataFrame({"x": x.round(3), "limit": np.where(card, 100, 0) + generator.integers(0, 9, 2_000)}).assign(
            card=np.where(card, "yes", "no"), y=spent
        )
    )
    assert "drop" not in made.source


def test_many_levels_alone_are_kept(init: Init) -> None:
    generator = np.random.default_rng(0)
    shops = [f"shop {i}" for i in generator.integers(0, 400, 1_000)]
    made = init(pd.DataFrame({"shop": shops, "x": generator.normal(size=1_000), "y": generator.normal(size=1_000)}))
    assert "restating the target" not in made.text


def test_a_strong_measurement_is_kept(init: Init) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=1_000)
    made = init(pd.DataFrame({"x": x, "y": x + 0.2 * generator.normal(size=1_000)}))
    assert "drop" not in made.source


def test_the_area_under_the_curve_matches_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    y, score = generator.integers(0, 2, 200), generator.integers(0, 20, 200)
    assert np.isclose(area_under_curve(y, score), roc_auc_score(y, score))


@pytest.mark.data
@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("bank-marketing/bank-full.csv", "y"),
        ("bank-churn/Churn_Modelling.csv", "Exited"),
        ("iranian-churn/Customer_Churn.csv", "Churn"),
        ("diamonds/diamonds.csv", "price"),
    ],
)
def test_strong_columns_of_public_tables_are_kept(data_dir: Path, init: Init, path: str, target: str) -> None:
    assert "restating the target" not in init(data_dir / path, target).text


def test_a_target_of_many_classes_is_not_boosted_class_by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(1200) % 12
    columns = {
        "a": y % 4 + rng.normal(0, 0.1, 1200),
        "b": y // 4 + rng.normal(0, 0.1, 1200),
        "c": rng.normal(size=1200),
    }
    sample = NumericSample(columns, y.astype(float), "multiclass", rng.integers(0, FOLDS, 1200), is_all=True)
    monkeypatch.setattr("sklearn.ensemble.HistGradientBoostingClassifier.fit", None)  # minutes for 32 classes
    found = together(list(columns), sample)
    assert found.shape == (1200, 12)
    assert (found.argmax(axis=1) == y).mean() > 0.95

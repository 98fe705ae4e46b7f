"""Keys of entities: which columns are one, and the split by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold

from gpupipe.pipeline.run import run_pipeline
from gpupipe.starter.entities import is_named, likeness
from gpupipe.starter.series import comparable_targets

Init = Callable[..., Any]
KEYS = {
    "integers": lambda i: np.random.default_rng(4).choice(10**6, 150, replace=False)[i] + 10**6,
    "texts": lambda i: np.array([f"PX-{7919 * j % 9973:04d}" for j in i]),
    "uuids": lambda i: np.array([f"{(int(j) + 3) * 0x9E3779B97F4A7C15 % 2**64:016x}" for j in i]),
    "numbers from 1": lambda i: i + 1,
}


def visits(n_people: int = 150, n_visits: int = 5) -> pd.DataFrame:
    """Return rows of persons, whose habit decides about half of ``y``."""
    generator = np.random.default_rng(7)
    who = np.repeat(np.arange(n_people), n_visits)
    habit = generator.normal(size=n_people)[who]
    table = pd.DataFrame({"who": who, "minutes": generator.gamma(2, 4, len(who)).round(1)})
    return table.assign(y=(habit + generator.normal(size=len(who))).round(3)).sample(frac=1, random_state=1)


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_rows_of_a_key_are_kept_together_whatever_its_type_and_name(init: Init, kind: str, task: str) -> None:
    table = visits(150, 8)
    table["who"] = KEYS[kind](table["who"].to_numpy())
    if task == "binary":
        table["y"] = np.where(table["y"] > 0, "up", "down")
    made = init(table.rename(columns={"who": "q7"}))
    assert made.values["split"] == {"cv": 5, "group": "q7", "seed": 0}
    assert "values of q7: y correlates by 0." in made.text
    assert "from 1 of 3 columns" in made.text
    assert any(line.startswith("# split: {cv: 5, stratify:") for line in made.text.splitlines())


def test_the_correlation_is_that_of_an_analysis_of_variance() -> None:
    table = visits(400, 6)
    codes, y = table["who"].to_numpy(), comparable_targets(table["y"].to_numpy(), "regression")
    deviations, correlation = likeness(codes, y)
    means = pd.Series(y[:, 0]).groupby(codes).mean()
    within = pd.Series(y[:, 0]).groupby(codes).var().mean()
    between = means.var() - within / 6
    assert correlation == pytest.approx(between / (between + within), abs=0.06)
    assert deviations > 10
    assert abs(likeness(codes, np.random.default_rng(0).permutation(y))[0]) < 4


def test_a_table_that_is_sorted_by_class_hides_neither_texts_nor_named_integers(init: Init) -> None:
    table = visits(40, 5).sort_values("who").assign(group=lambda t: np.where(t["who"] < 20, "old", "new"))
    for name, who in (("subject", table["who"] + 1), ("q", table["who"].map("S{:03d}".format))):
        made = init(table.assign(**{name: who}).drop(columns=["who", "y"]), "group")
        assert made.values["split"]["group"] == name


def test_years_and_balanced_measurements_are_not_keys(init: Init) -> None:
    generator = np.random.default_rng(5)
    year = np.repeat(np.arange(1960, 2000), 30)
    effect = generator.normal(size=40)[year - 1960]
    table = pd.DataFrame({"year": year, "x": generator.normal(size=1_200), "y": effect + generator.normal(size=1_200)})
    assert "group" not in init(table).values["split"]
    smooth = table.assign(y=year / 5 + generator.normal(size=1_200)).rename(columns={"year": "dose"})
    assert "group" not in init(smooth).values["split"]


def test_shuffled_folds_are_optimistic_and_the_proposed_ones_are_not() -> None:
    table = visits()
    X = pd.get_dummies(table["who"]).to_numpy(float)
    scores = [
        np.mean([LinearRegression().fit(X[a], table["y"].iloc[a]).score(X[b], table["y"].iloc[b]) for a, b in folds])
        for folds in (KFold(5, shuffle=True, random_state=0).split(X), GroupKFold(5).split(X, groups=table["who"]))
    ]
    assert scores[0] > 0.2 > 0.1 > scores[1]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(lambda g, n: g.integers(20, 70, n), id="age"),
        pytest.param(lambda g, n: g.poisson(30, n), id="count"),
        pytest.param(lambda g, n: g.gamma(3, 40, n).round(0).astype(int), id="amount"),
        pytest.param(lambda g, n: np.array(list("abcdefgh"))[g.integers(0, 8, n)], id="category of few levels"),
        pytest.param(lambda g, n: np.array([f"town {i}" for i in range(60)])[g.zipf(1.6, n) % 60], id="town"),
    ],
)
def test_measurements_and_categories_with_an_effect_are_not_keys(init: Init, values: Any) -> None:
    generator = np.random.default_rng(3)
    found = values(generator, 1_500)
    codes = pd.factorize(found, sort=True)[0]
    effect = (codes - codes.mean()) / codes.std()
    table = pd.DataFrame({"v": found, "x": generator.normal(size=1_500), "y": effect + generator.normal(size=1_500)})
    assert "group" not in init(table).values["split"]


def test_the_coarsest_key_that_makes_finer_ones_alike_is_chosen(init: Init) -> None:
    table = visits(120, 8).sort_values("who")
    table["visit_id"] = np.arange(len(table)) // 2 + 5_000
    table["y"] += np.random.default_rng(1).normal(size=len(table) // 2).repeat(2)
    made = init(table.rename(columns={"who": "patient"}))
    assert made.values["split"]["group"] == "patient"
    apart = visits(120, 8).sort_values("who").assign(clinic=np.repeat(np.arange(24), 40) * 37 + 400)
    assert init(apart).values["split"]["group"] == "who"  # clinics differ only by their persons


def test_a_configuration_with_a_key_runs_without_it_as_an_input(init: Init, tmp_path: Any) -> None:
    made = init(visits(60, 4).rename(columns={"who": "customer_id"}))
    from gpupipe.config import load_config

    overrides = ["report.enabled=false", "evaluate.importance=false", "models=[ridge]"]
    run = run_pipeline(load_config(made.path, overrides), tmp_path / "run")
    assert len(run.model.predict(pd.DataFrame({"minutes": [3.0]}))) == 1


@pytest.mark.parametrize(
    ("name", "is_key"),
    [
        ("patient", True), ("userID", True), ("custid", False), ("customerid", True), ("Account Number", True),
        ("number of patients", False), ("customer_age", False), ("n_users", False), ("subject", True), ("id", True),
    ],
)  # fmt: skip
def test_names_of_entities_are_recognized_by_their_last_word(name: str, is_key: bool) -> None:
    assert is_named(name) == is_key


def test_repeated_rows_are_kept_together_by_their_identifier_or_can_be_dropped(frame: pd.DataFrame, init: Init) -> None:
    table = frame.assign(sensor=np.random.default_rng(2).choice(10**6, len(frame), replace=False))
    made = init(pd.concat([table, table.head(30)]))
    assert made.values["split"] == {"cv": 5, "group": "sensor", "seed": 0}
    assert "sensor" not in made.source.get("drop", [])
    made = init(pd.concat([frame, frame.head(30)]))
    assert "9% of the rows repeat earlier ones" in made.text
    assert "add to source: prepare: hooks.py:distinct" in " ".join(made.text.replace("#", "").split())
    assert "def distinct(frame): return frame.drop_duplicates()" in made.text

"""Metrics and decisions of two models on the same rows, compared with scikit-learn and with counts made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, mean_absolute_error, roc_auc_score

from gpupipe import ConfigError, DataError, Model, Pipeline, SchemaError
from gpupipe.inference.diff.prediction_comparison import compare_predictions

N = 600


def people(seed: int, n: int = N) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": random.integers(18, 80, n), "plan": random.choice(["a", "b", "c"], n)})
    frame["shop"] = random.integers(0, 40, n)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) // 12, unit="D")
    score = 0.05 * (frame["age"] - 50) + (frame["plan"] == "a") + random.normal(scale=1.0, size=n)
    return frame.assign(left=np.where(score > 0, "yes", "no"), spent=100 + 20 * score)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    folder = tmp_path_factory.mktemp("models")
    frame = people(0)
    entries: dict[str, tuple[str, str, dict[str, Any]]] = {
        "nb": ("left", "gaussian_nb", {}),
        "linear": ("left", "logistic_regression", {"features": [{"impute": {"columns": "age"}}]}),
        "grouped": ("left", "gaussian_nb", {"split": {"group": "shop"}}),
        "timed": ("left", "gaussian_nb", {"split": {"time": "day"}}),
        "costly": ("left", "gaussian_nb", {"evaluate": {"cost": {"false_positive": 1, "false_negative": 5}}}),
        "spent": ("spent", "ridge", {}),
        "spent_nb": ("spent", "linear_regression", {"features": [{"impute": {"columns": "age"}}]}),
    }
    found = {}
    for name, (target, model, settings) in entries.items():
        used = frame.drop(columns="spent" if target == "left" else "left")
        pipeline = Pipeline(used, target=target, models=[model], report={"enabled": False}, **settings)
        found[name] = pipeline.run(folder / name, quiet=True).model
    return found


def test_metrics_and_flips_are_those_of_the_predictions_of_each_model(models: dict[str, Model]) -> None:
    old, new, rows = models["nb"], models["linear"], people(1)
    found = compare_predictions(old, new, rows, by=["plan"])
    tables = [model.predict_table(rows).to_pandas() for model in (old, new)]
    scores = [table["probability_yes"] for table in tables]
    truth = rows["left"] == "yes"
    for name, metric in (("roc_auc", roc_auc_score), ("log_loss", log_loss)):
        change = found.metrics[name]
        assert [change.old, change.new] == pytest.approx([metric(truth, p) for p in scores])
        assert change.low < change.difference == change.new - change.old < change.high
    labels = [table["prediction"].to_numpy() for table in tables]
    pairs = pd.crosstab(*labels)
    assert {(p.old, p.new): p.n_rows for p in found.decisions[0].pairs} == {
        (a, b): pairs.loc[a, b] for a, b in (("yes", "no"), ("no", "yes")) if pairs.loc[a, b]
    }
    flipped = labels[0] != labels[1]
    assert found.n_flipped == found.decisions[0].n_flipped == flipped.sum() > 0
    for own in found.slices:
        is_in = (rows["plan"] == own.level).to_numpy()
        assert (own.n_rows, own.n_flipped) == (is_in.sum(), flipped[is_in].sum())
        assert own.metrics["roc_auc"].new == pytest.approx(roc_auc_score(truth[is_in], scores[1][is_in]))
    assert [own.level for own in found.slices] == rows["plan"].value_counts().index.to_list()


def test_a_model_and_itself_do_not_differ_and_a_file_gives_what_its_frame_gives(
    models: dict[str, Model], tmp_path: Path
) -> None:
    rows = people(2).assign(left=lambda frame: frame["left"].mask(frame.index % 3 == 0))  # late labels
    same = compare_predictions(models["nb"], models["nb"], rows)
    assert same.n_labelled == 400 and same.n_flipped == 0
    assert {(c.difference, c.low, c.high) for c in same.metrics.values()} == {(0.0, 0.0, 0.0)}
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    of_file, of_frame = (
        compare_predictions(models["nb"], models["grouped"], data, by=["shop", "day"]) for data in (path, rows)
    )
    assert of_file == of_frame
    without = compare_predictions(models["nb"], models["linear"], rows[["age", "plan", "shop", "day"]])
    assert (without.metrics, without.n_labelled) == ({}, 0) and without.n_flipped > 0


@pytest.mark.parametrize(
    ("new", "group", "units"),
    [
        ("linear", None, "rows"),
        ("grouped", None, "groups of shop"),
        ("timed", None, "days of day"),
        ("linear", "shop", "groups of shop"),
        ("linear", "plan", "rows, as there are only 3 groups of plan"),
    ],
)
def test_the_split_decides_what_the_bootstrap_draws(
    models: dict[str, Model], new: str, group: str | None, units: str
) -> None:
    assert compare_predictions(models["nb"], models[new], people(3), group=group).units == units


def test_groups_of_equal_rows_have_the_interval_of_their_first_rows(models: dict[str, Model]) -> None:
    rows = people(4, 200).assign(shop=np.arange(200))
    twice = pd.concat([rows, rows, rows], ignore_index=True)
    once, grouped, naive = (
        compare_predictions(models["nb"], models["linear"], data, group=group).metrics["accuracy"]
        for data, group in ((rows, None), (twice, "shop"), (twice, None))
    )
    width = once.high - once.low
    assert grouped.high - grouped.low == pytest.approx(width, rel=0.2)
    assert naive.high - naive.low < 0.75 * width  # copies that count as rows promise too much


def test_the_costs_of_the_run_are_a_metric(models: dict[str, Model]) -> None:
    rows = people(5)
    found = compare_predictions(models["nb"], models["costly"], rows)
    labels = models["costly"].predict(rows)
    cost = 5 * ((rows["left"] == "yes") & (labels == "no")) + ((rows["left"] == "no") & (labels == "yes"))
    assert found.metrics["cost"].new == pytest.approx(cost.mean())
    assert found.decisions[0].n_by_threshold == found.n_flipped > 0  # only their thresholds differ


def test_numbers_flip_if_they_move_by_more_than_the_error_of_the_old_model(models: dict[str, Model]) -> None:
    old, new, rows = models["spent"], models["spent_nb"], people(6)
    moves = np.abs(new.predict(rows) - old.predict(rows))
    found = compare_predictions(old, new, rows)
    assert found.decisions[0].limit == old.manifest["metrics"]["mae"]
    assert found.n_flipped == (moves > found.decisions[0].limit).sum()
    assert found.metrics["mae"].new == pytest.approx(mean_absolute_error(rows["spent"], new.predict(rows)))
    limit = float(np.median(moves))
    given = compare_predictions(old, new, rows, moved=limit)
    assert given.n_flipped == (moves > limit).sum() and given.decisions[0].limit_reason == "as given"


def test_what_cannot_be_compared_is_an_error(models: dict[str, Model]) -> None:
    with pytest.raises(ConfigError, match="targets differ: left and spent"):
        compare_predictions(models["nb"], models["spent"], people(7))
    with pytest.raises(SchemaError, match="no column 'plam'"):
        compare_predictions(models["nb"], models["linear"], people(7), by=["plam"])
    with pytest.raises(DataError, match="there are no rows"):
        compare_predictions(models["nb"], models["linear"], people(7)[:0])

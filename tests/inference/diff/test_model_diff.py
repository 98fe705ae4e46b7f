"""Changes between two models, and contributions that explain them, compared with those of each model by itself."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpupipe as gp
from gpupipe import ConfigError, Model, Pipeline
from gpupipe.files.jsonfile import dumps
from gpupipe.inference.diff import contribution_changes, shared_table
from gpupipe.inference.diff.conditions import DiffCondition
from gpupipe.inference.diff.contribution_changes import ContributionChanges, RowChange
from gpupipe.inference.diff.decision_changes import DecisionChanges, FlippedLabels, RowMoves
from gpupipe.inference.diff.model_changes import ModelChange
from gpupipe.inference.diff.prediction_comparison import PredictionComparison, SliceChanges
from gpupipe.inference.drift.report import ReferenceModel
from gpupipe.metrics.bootstrap import MetricChange
from tests.examples import examples
from tests.report.html_page import Page

PLAIN: dict[str, Any] = {"report": {"enabled": False}, "evaluate": {"importance": False}}


def people(seed: int, n: int = 300) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": random.integers(18, 80, n), "plan": random.choice(["a", "b", "<c>"], n)})
    frame["income"] = random.lognormal(3.0, 1.0, n)
    frame.loc[random.random(n) < 0.05, "income"] = np.nan
    score = 0.05 * (frame["age"] - 50) + (frame["plan"] == "a") + random.normal(scale=0.7, size=n)
    return frame.assign(
        left=np.where(score > 0, "yes", "no"), size=np.select([score < -0.7, score < 0.7], ["S", "M"], "L"), spent=score
    )


def train(folder: Path, frame: pd.DataFrame, model: Any, target: str = "left", **settings: Any) -> Model:
    used = frame.drop(columns=[name for name in ("left", "size", "spent") if name != target])
    pipeline = Pipeline(used, target=target, models=[model], **(PLAIN | settings))
    return pipeline.run(folder / str(len([*folder.iterdir()])), quiet=True).model


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return train(tmp_path_factory.mktemp("base"), people(0), "logistic_regression")


RECORDED = ("goal", "model", "decision", "columns", "levels", "rules", "reading")


def recorded(old: Model, new: Model) -> list[tuple[Any, ...]]:
    changes = gp.diff(old, new).changes
    return [(c.part, c.name, c.old, c.new) for c in changes if c.part in RECORDED]


def test_a_planted_level_column_threshold_rule_and_setting_are_found_and_nothing_else(
    base: Model, tmp_path: Path
) -> None:
    frame = people(0)
    level = frame.assign(plan=frame["plan"].mask(frame.index % 9 == 0, "d"))
    found = train(tmp_path, level, "logistic_regression")
    assert recorded(base, found) == [("levels", "plan", [], ["d"])]
    assert recorded(found, base) == [("levels", "plan", ["d"], [])]
    assert recorded(base, train(tmp_path, frame.drop(columns="plan"), "logistic_regression")) == [
        ("columns", "plan", "categorical", None)
    ]
    threshold = train(tmp_path, frame, "logistic_regression", evaluate={"importance": False, "threshold": 0.3})
    assert recorded(base, threshold) == [("decision", "threshold", 0.5, 0.3)]
    flips = gp.diff(base, threshold, frame)
    assert flips.predictions is not None and flips.predictions.n_flipped > 0 and flips.contributions == ()
    rules = train(tmp_path, frame, "logistic_regression", data={"age": {"range": [0, 120]}})
    assert [each[:2] for each in recorded(base, rules)] == [("rules", "age.range")]
    weaker = train(tmp_path, frame, {"logistic_regression": {"C": 0.01}})
    assert recorded(base, weaker) == [("model", "params.C", 1.0, 0.01)]
    assert recorded(base, base) == [] and gp.diff(base, base.folder.parent).changes == ()
    younger = train(tmp_path, frame.assign(age=frame["age"] - 7), "logistic_regression")
    changes = {c.name: c for c in gp.diff(base, younger).changes if c.part == "learned"}
    center = changes["Standardize(age).center"]
    assert center.old - center.new == pytest.approx(7)


MODELS: dict[str, list[Any]] = {
    "left": ["logistic_regression", {"xgboost": {"n_estimators": 20}}, {"random_forest": {"n_estimators": 10}}],
    "size": ["logistic_regression", {"xgboost": {"n_estimators": 20}}, {"random_forest": {"n_estimators": 10}}],
    "spent": ["ridge", {"xgboost": {"n_estimators": 20}}],
}


@pytest.mark.parametrize("target", MODELS)
def test_differences_sum_to_those_of_the_margins_that_each_model_explains(target: str, tmp_path: Path) -> None:
    rows = people(9)
    models = []
    for i, entry in enumerate(MODELS[target]):
        frame = people(i).drop(columns="income") if i == 1 else people(i)  # other rows, and other columns
        models.append(train(tmp_path, frame, entry, target))
    for old, new in pairwise(models):
        (found,) = gp.diff(old, new, rows, rows=12).contributions
        same = old.explain(rows[:1]).scale == new.explain(rows[:1]).scale
        assert len(found.rows) == 12 and set(found.columns) == {"age", "plan", "income"}
        for row in found.rows:
            one = rows.iloc[[row.row]]
            margins, bases = [], []
            for model in (old, new):
                own = model.explain(one)
                place = own.outputs.index(row.new) if own.outputs else None
                margins.append(own.margins[0] if place is None else own.margins[0, place])
                bases.append(own.base if place is None else own.base[place])
                if not same:  # a forest explains probabilities
                    labels = list(model.goal.labels)
                    margins[-1] = model.predict_proba(one)[0, 1 if target == "left" else labels.index(row.new)]
            assert [row.old_margin, row.new_margin] == pytest.approx(margins, abs=1e-6)
            total = row.base + sum(row.differences.values())
            assert total == pytest.approx(margins[1] - margins[0], abs=1e-6)
            if same:
                assert row.base == pytest.approx(bases[1] - bases[0])
            assert (row.old, row.new) == tuple(
                str(m.predict(one)[0]) if target != "spent" else text
                for m, text in zip((old, new), (row.old, row.new), strict=True)
            )
        flips = [row.is_flipped for row in found.rows]
        assert flips == sorted(flips, reverse=True)


def test_features_of_a_history_are_explained_with_all_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contribution_changes, "MOST_EXPLAINED", 20)  # so that most rows are not explained
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"who": random.integers(0, 20, 300), "spend": random.gamma(2.0, 9.0, 300)})
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(300), unit="D")
    frame["left"] = np.where(frame.groupby("who")["spend"].shift().fillna(0.0) > 15, "yes", "no")
    lag = [{"lag": {"key": "who", "time": "day", "columns": "spend", "periods": [1]}}, {"drop": ["who", "day"]}]
    old, new = (
        Pipeline(frame, target="left", models=[name], features=lag, **PLAIN).run(tmp_path / name, quiet=True).model
        for name in ("logistic_regression", "gaussian_nb")
    )
    (found,) = gp.diff(old, new, frame, rows=5).contributions
    whole = [model.explain(frame) for model in (old, new)]
    assert len(found.rows) == 5
    for row in found.rows:
        assert [row.old_margin, row.new_margin] == pytest.approx([each.margins[row.row] for each in whole])


def test_chunks_change_nothing(base: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = train(tmp_path, people(1), {"xgboost": {"n_estimators": 20}})
    whole = gp.diff(base, other, people(2), by=["plan"])
    people(2).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.setattr(shared_table, "SLICE_ROWS", 37)
    for data in (people(2), tmp_path / "rows.csv"):
        part = gp.diff(base, other, data, by=["plan"])
        assert part.predictions == whole.predictions
        for one, two in zip(part.contributions[0].rows, whole.contributions[0].rows, strict=True):
            assert (one.row, one.old, one.new, one.values) == (two.row, two.old, two.new, two.values)
            assert one.differences == pytest.approx(two.differences, abs=1e-9)


def test_what_cannot_be_compared_has_a_reason(base: Model, tmp_path: Path) -> None:
    spent = train(tmp_path, people(0), "ridge", "spent")
    found = gp.diff(base, spent, people(1))
    assert found.predictions is None and found.contributions == ()
    assert found.uncompared[0] == "predictions: the targets differ: left and spent"
    assert found.uncompared[1].startswith("settings of the models: logistic_regression and ridge")
    with pytest.raises(ConfigError, match="needs predictions"):
        found.failing(["flips>0"])
    third = people(0).assign(left=people(0)["size"])
    classes = gp.diff(base, train(tmp_path, third, "logistic_regression"), people(1))
    assert "metrics and contributions: the classes differ" in classes.uncompared
    assert classes.predictions is not None and classes.predictions.metrics == {}
    assert classes.predictions.n_flipped == 300 and classes.contributions == ()


def test_the_page_and_the_document_have_what_the_screen_has(base: Model, tmp_path: Path) -> None:
    other = train(tmp_path, people(1), {"xgboost": {"n_estimators": 20}})
    found = gp.diff(base, other, people(2), by=["plan"], rows=300)
    page, document = found.to_html("new.csv"), json.loads(dumps(found.to_json()))
    assert "<c>" not in page and "&lt;c&gt;" in page and "<script" not in page
    for text in (found.summary, "new.csv", *found.uncompared):
        assert text.replace("<", "&lt;") in page
    rows = document["contributions"][0]["rows"]
    assert page.count('data-label="old margin"') == len(rows) > 100
    assert all(
        abs(row["new_margin"] - row["old_margin"] - row["base"] - sum(row["differences"].values())) < 1e-6
        for row in rows
    )
    assert found.lines()[-1] == found.summary == document["summary"]
    without = gp.diff(base, other)
    assert without.uncompared[0] in without.to_html() and without.lines()[-1] == without.summary


def test_hostile_names_are_text_on_the_page(tmp_path: Path) -> None:
    """Each name is hostile in another place, so that a page that does not escape one of them fails."""
    names = [f"<script>alert({i})</script>" for i in range(12)]
    change = MetricChange(0.5, 0.6, 0.1, 0.0, 0.2)
    row = RowChange(0, names[0], names[1], True, 0.1, 0.2, 0.0, {names[2]: 0.1}, {names[2]: names[3]}, {names[4]: "1"})
    compared = PredictionComparison(
        n_rows=1,
        metrics={names[5]: change},
        decisions=(DecisionChanges(names[6], 1, 1, (FlippedLabels(names[6], names[7], 1),)),),
        slices=(SliceChanges(names[8], names[9], 1, 1),),
        notes=(names[10],),
    )
    found = gp.ModelDiff(
        old=ReferenceModel(name=names[11]),
        new=ReferenceModel(target=names[0]),
        changes=(ModelChange("columns", names[0], [names[1]], [names[2]]),),
        uncompared=(names[3],),
        predictions=compared,
        contributions=(ContributionChanges("", names[4], 1, 0.0, {names[5]: 0.1}, (row,)),),
    )
    path = tmp_path / "page.html"
    path.write_text(found.to_html(names[6]), encoding="utf-8")
    page = Page(path)
    page.check_self_contained()
    assert [name for name in names if name not in page.text] == []


@examples(60)
@given(
    st.lists(st.tuples(st.sampled_from([True, *[False] * 4]), st.sampled_from([0.0, 0.1, 0.2, 0.3])), min_size=20),
    st.integers(0, 6),
)
def test_the_most_moved_rows_are_those_of_a_plain_sort(rows: list[tuple[bool, float]], n: int) -> None:
    flipped, size = (np.array(each) for each in zip(*rows, strict=True))
    plain = sorted(range(len(rows)), key=lambda i: (not rows[i][0], -rows[i][1], i))
    expected = [i for i in plain if rows[i][0] or rows[i][1] > 0][:n]
    found = RowMoves(flipped, size, size, size).most_moved(n).tolist()
    assert [rows[i] for i in found] == [rows[i] for i in expected]
    assert len(set(found)) == len(found)


@examples(60)
@given(
    st.sampled_from(["<", "<=", ">", ">="]),
    st.integers(-20, 20),
    st.integers(-20, 20),
    st.sampled_from(["", ".low", ".high"]),
)
def test_a_condition_holds_as_its_operator_says(test: str, value: int, limit: int, end: str) -> None:
    ends = {"": "difference", ".low": "low", ".high": "high"}
    numbers = {"difference": 100.0, "low": 100.0, "high": 100.0} | {ends[end]: value / 10}
    compared = PredictionComparison(n_rows=50, n_flipped=1, metrics={"r2": MetricChange(0.0, 0.0, **numbers)})
    condition = DiffCondition.parse(f" r2{end} {test} {limit / 10}")
    assert bool(condition.found_in(compared)) == eval(f"{value} {test} {limit}")
    assert DiffCondition.parse("flips>=2%").found_in(compared) and not DiffCondition.parse("flips>1").found_in(compared)


@pytest.mark.parametrize("text", ["flips", "flips>x", "flips.low>2", "r2<1%", ">3", "r2=1", "r2<1.2.3"])
def test_a_malformed_condition_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        DiffCondition.parse(text)


def test_an_undefined_metric_holds_every_condition() -> None:
    nothing = PredictionComparison(n_rows=5, metrics={"roc_auc": MetricChange(*[float("nan")] * 3)})
    assert DiffCondition.parse("roc_auc<-0.5").found_in(nothing) == "roc_auc<-0.5: roc_auc difference is undefined"
    with pytest.raises(ConfigError, match="'f1' was not compared"):
        DiffCondition.parse("f1<0").found_in(nothing)

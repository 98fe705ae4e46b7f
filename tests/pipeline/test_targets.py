"""Several targets in runs: metrics, decisions, predictions, exported models, report, clusters and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import xgboost
from sklearn import metrics as sk

import gpupipe as gp
from gpupipe.model_parts.goal import Goal, stratum_codes
from gpupipe.plan.data_check import check_data

RNG = np.random.default_rng(41)
N = 1_200
FRAME = pd.DataFrame({"a": RNG.normal(size=N).round(3), "b": RNG.normal(size=N).round(3)})
FRAME["plan"] = RNG.choice(["x", "y", "z"], N)
FRAME["part"] = np.where(RNG.random(N) < 0.25, "test", "train")
FRAME["cost"] = 100 * FRAME["a"] + 50 * (FRAME["plan"] == "x") + 20 * RNG.normal(size=N)
FRAME["size"] = FRAME["b"] ** 2 + 0.2 * RNG.normal(size=N)
FRAME["left"] = np.where(FRAME["a"] + RNG.normal(size=N) > 0.8, "yes", "no")
FRAME["late"] = (FRAME["b"] + RNG.normal(size=N) > 0).astype(int)
FRAME["risk"] = np.select([FRAME["a"] < -0.5, FRAME["a"] < 0.5], ["low", "mid"], "high")
TARGETS = ("cost", "size", "left", "late", "risk")
NUMBERS, LABELS, MIXED = ("cost", "size"), ("left", "late"), ("left", "risk")
SPLIT = {"column": {"name": "part", "train": ["train"], "test": ["test"]}}  # the same rows for any target
TREES: dict[str, Any] = {"xgboost": {"defaults": "library", "n_estimators": 20, "max_depth": 3}}
JOINT: dict[str, Any] = {"xgboost": {**TREES["xgboost"], "multi_strategy": "multi_output_tree"}, "as": "joint"}


def with_joint(**params: Any) -> dict[str, Any]:
    return {"xgboost": JOINT["xgboost"] | params}


def pipeline(targets: Any, frame: pd.DataFrame = FRAME, **settings: Any) -> gp.Pipeline:
    named = (targets,) if isinstance(targets, str) else targets
    defaults: dict[str, Any] = {
        "target": targets, "models": [TREES], "features": [{"one_hot": "plan"}], "split": SPLIT,
        "report": {"enabled": False}, "evaluate": {"importance": False},
        "drop": [name for name in TARGETS if name not in named],
    }  # fmt: skip
    return gp.Pipeline(frame, **defaults | settings)


def metrics_of(run: gp.Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.path / "metrics.json").read_text())
    return found


@pytest.mark.parametrize("split", [SPLIT, {"cv": 3}], ids=["test rows", "folds"])
def test_metrics_are_those_of_each_target_and_their_means(split: dict[str, Any], tmp_path: Path) -> None:
    run = pipeline(list(NUMBERS), split=split).run(tmp_path / "run")
    rows, found = run.predictions, metrics_of(run)["models"]["xgboost"]
    folds = [part for _, part in rows.groupby("fold")] if "fold" in rows else [rows]
    for name in NUMBERS:
        expected = np.mean([sk.r2_score(part[f"target_{name}"], part[f"prediction_{name}"]) for part in folds])
        assert found[f"r2[{name}]"] == pytest.approx(expected, abs=1e-12)
    assert found["r2"] == pytest.approx(np.mean([found[f"r2[{name}]"] for name in NUMBERS]), abs=1e-12)
    assert run.metrics["r2"] == found["r2"]
    assert found["r2"] > 0.8


@pytest.mark.parametrize("targets", [NUMBERS, LABELS, MIXED], ids=str)
def test_each_target_is_predicted_and_decided_as_in_a_run_for_it_alone(
    targets: tuple[str, ...], tmp_path: Path
) -> None:
    has_classes = targets != NUMBERS
    evaluate: dict[str, Any] = {"importance": False, "intervals": 0.9}
    if has_classes:
        evaluate |= {"threshold": "best_f1", "calibrate": "temperature"}
    # Not the default split: its validation rows are stratified, alone by one target, together by the sets of classes.
    split = {"cv": 3, "stratify": False}
    together = pipeline(list(targets), evaluate=evaluate, split=split, drop=[
        *(name for name in TARGETS if name not in targets), "part"]).run(tmp_path / "both")  # fmt: skip
    rows, found = together.predictions, metrics_of(together)
    for name in targets:
        others = [other for other in TARGETS if other != name]
        alone = pipeline(name, evaluate=evaluate, split=split, drop=[*others, "part"]).run(tmp_path / name)
        expected, metrics = alone.predictions, metrics_of(alone)
        for column in map(str, expected):
            if column in ("row", "fold"):
                own = column
            else:
                kind, _, label = column.partition("_")
                own = f"{kind}_{name}_{label}" if label else f"{kind}_{name}"
            pd.testing.assert_series_equal(rows[own], expected[column], check_names=False)
        assert found["intervals"][name] == metrics["intervals"]
        for metric, value in metrics["models"]["xgboost"].items():
            plain = metric.removesuffix("_std")
            own = f"{plain}[{name}]" + ("_std" if metric != plain else "")
            assert found["models"]["xgboost"][own] == value, metric
        decision = together.model.decision.targets[targets.index(name)]
        assert decision.to_json() == alone.model.decision.to_json()


@pytest.mark.parametrize("targets", [NUMBERS, LABELS, MIXED], ids=str)
def test_model_scorer_table_and_untrusted_model_agree(targets: tuple[str, ...], tmp_path: Path) -> None:
    run = pipeline(list(targets), evaluate={"intervals": 0.9, "importance": False}).run(tmp_path / "run")
    model, unseen = run.model, FRAME[["a", "b", "plan"]].head(40)
    expected = model.predict(unseen)
    assert expected.shape == (40, 2)
    rows, scorer = pa.Table.from_pandas(unseen).to_pylist(), model.scorer()
    np.testing.assert_array_equal(scorer.predict(rows), expected)
    np.testing.assert_array_equal(scorer.predict(rows[3]), expected[3])
    loaded = gp.load_model(model.folder)
    for each in (loaded, gp.load_model(model.folder, untrusted=True)):
        assert each.goal.names == targets
        table = each.predict_table(unseen).to_pandas()
        np.testing.assert_array_equal(table[[f"prediction_{name}" for name in targets]], expected)
        if targets == NUMBERS:
            ends = model.predict_interval(unseen)
            assert ends.shape == (40, 2, 2)
            np.testing.assert_array_equal(each.predict_interval(unseen), ends)
            np.testing.assert_array_equal(scorer.predict_interval(rows), ends)
            np.testing.assert_array_equal(table[["lower_size", "upper_size"]], ends[:, 1])
        else:
            for i, (goal, probability) in enumerate(zip(each.goal.targets, each.predict_proba(unseen), strict=True)):
                names = [f"probability_{goal.target}_{label}" for label in goal.labels]
                np.testing.assert_array_equal(table[names], probability)
                np.testing.assert_array_equal(scorer.predict_proba(rows)[i], probability)
                np.testing.assert_array_equal(scorer.predict_proba(rows[3])[i], probability[3])
                sets = [f"set_{goal.target}_{label}" for label in goal.labels]
                np.testing.assert_array_equal(table[sets], model.predict_set(unseen)[i])
                np.testing.assert_array_equal(scorer.predict_set(rows)[i], model.predict_set(unseen)[i])
        assert each.verify().passed
    with pytest.raises(gp.DataError, match="a multioutput model has no"):
        model.predict_proba(unseen) if targets == NUMBERS else model.predict_interval(unseen)
    assert model.predict(unseen.head(0)).shape == (0, 2)


def test_joint_trees_and_networks_are_one_model_in_a_run(tmp_path: Path) -> None:
    network = {"mlp": {"epochs": 30, "width": 16, "learning_rate": 0.01}}
    run = pipeline(list(NUMBERS), models=[JOINT, network]).run(tmp_path / "run")
    found = metrics_of(run)["models"]
    assert min(found["joint"]["r2"], found["mlp"]["r2"]) > 0.6
    assert len(run.model.estimator.models) == 1
    assert run.model.verify().passed


def test_statistics_of_each_target_are_columns(tmp_path: Path) -> None:
    frame = FRAME.assign(shop=RNG.integers(0, 30, N).astype(str))
    ops = [{"target_encode": "shop"}, {"drop": ["a", "b", "plan"]}]
    run = pipeline(list(MIXED), frame, features=ops, models=["logistic_regression"]).run(tmp_path / "run")
    expected = ["shop_target_left", *(f"shop_target_risk_{k}" for k in range(3))]
    assert list(run.model.feature_names) == expected
    train = frame[frame["part"] == "train"]
    rows = train["shop"] == "7"
    prior = (train["left"] == "yes").mean()
    mean = ((train["left"][rows] == "yes").sum() + 20 * prior) / (rows.sum() + 20)
    new = pd.DataFrame({"shop": ["7"], "a": [0.0], "b": [0.0], "plan": ["x"]})
    assert run.model.transform(new)[0, 0] == pytest.approx(mean, rel=1e-6)


def test_weights_count_for_every_target_as_repeated_rows(tmp_path: Path) -> None:
    weight = RNG.integers(1, 4, N)
    again = np.repeat(np.arange(N), weight)
    settings: dict[str, Any] = {"models": ["logistic_regression"], "evaluate": {"importance": False, "threshold": 0.4}}
    weighted = pipeline(list(LABELS), FRAME.assign(w=weight), weight="w", **settings).run(tmp_path / "weighted")
    repeated = pipeline(list(LABELS), FRAME.iloc[again].reset_index(drop=True), **settings).run(tmp_path / "repeated")
    first, second = (metrics_of(run)["models"]["logistic_regression"] for run in (weighted, repeated))
    assert first == pytest.approx(second, rel=1e-6)


def test_tuning_ranks_trials_by_the_mean_of_the_targets(tmp_path: Path) -> None:
    entry = {**TREES, "tune": {"trials": 3, "folds": 2}}
    run = pipeline(list(NUMBERS), models=[entry]).run(tmp_path / "run")
    found = metrics_of(run)
    assert found["tried"]["trials"] == 3
    assert max(trial["score"] for trial in found["search"]["xgboost"]["tried"]) > 0.5


def test_the_report_has_a_section_for_each_target(tmp_path: Path) -> None:
    run = pipeline(list(LABELS), report={"enabled": True}, evaluate={"intervals": 0.9, "threshold": "best_f1"})
    done = run.run(tmp_path / "run")
    assert "<th>target late</th><td>binary, labels 0, 1, threshold 0." in done.model._repr_html_()
    page = (done.path / "report.html").read_text(encoding="utf-8")
    assert "Prediction of <b>left, late</b>" in page
    for i, name in enumerate(LABELS, 1):
        assert f"<h2>{name}: xgboost on the test split</h2>" in page
        assert (done.path / "plots" / f"roc-{i}.svg").is_file()
        threshold = done.model.decision.targets[i - 1].threshold
        assert f"<b>{threshold:.3g}" in page or f"<b>{threshold:.4g}" in page
    assert "highest predicted probability of left = yes" in page
    assert [row for row in done.importances["column"]][:2] in (["a", "b"], ["b", "a"])


def test_rows_without_one_of_the_targets_are_dropped(tmp_path: Path) -> None:
    frame = FRAME.copy()
    frame.loc[:9, "cost"], frame.loc[5:19, "size"] = np.nan, np.nan
    run = pipeline(list(NUMBERS), frame, split={"cv": 3}).run(tmp_path / "run")
    notes = [note.text for note in run.timeline.all_notes("warning")]
    assert "20 rows in which a target is missing were dropped" in notes
    assert set(run.predictions["row"]) == set(range(20, N))


def test_sets_of_classes_are_strata() -> None:
    goal = Goal("multioutput", targets=(Goal("binary", "p", (0, 1)), Goal("multiclass", "q", ("a", "b", "c"))))
    y = np.column_stack([np.repeat([0, 0, 1, 1], [500, 300, 190, 10]), np.repeat([0, 1, 2, 0], [500, 300, 190, 10])])

    def sizes(n_folds: int) -> list[int]:
        codes = stratum_codes(goal, y.astype(float), n_folds)
        assert codes is not None
        return sorted(np.bincount(codes).tolist())

    assert sizes(0) == sizes(8) == [10, 190, 300, 500]  # the rare set is stratified by its rarest class
    assert sizes(20) == [200, 300, 500]  # it is too small for the folds: it joins the other rows of this class
    numbers = Goal("multioutput", targets=(Goal("regression", "p"), Goal("regression", "q")))
    assert stratum_codes(numbers, y.astype(float)) is None


def test_a_class_that_is_rare_in_each_set_of_classes_is_stratified(tmp_path: Path) -> None:
    frame = FRAME.assign(left="no", level=np.arange(N) % 12)
    frame.loc[::100, "left"] = "yes"  # one row in each set of classes
    schema = {"level": "categorical"}
    drop = [*(name for name in TARGETS if name != "left"), "part"]
    run = pipeline(["left", "level"], frame, split={"test_size": 0.25}, schema=schema, drop=drop).run(tmp_path / "run")
    assert (run.predictions["target_left"] == "yes").sum() == 3
    with pytest.raises(gp.DataError, match="target 'left': class 'yes' has 12 rows; 15 folds need at least 15"):
        pipeline(["left", "level"], frame, split={"cv": 15}, schema=schema, drop=drop).run(tmp_path / "folds")


def test_test_rows_have_the_shares_of_each_set_of_classes(tmp_path: Path) -> None:
    run = pipeline(list(LABELS), split={"test_size": 0.25}).run(tmp_path / "run")
    rows = run.predictions
    shares = rows.groupby(["target_left", "target_late"]).size() / len(rows)
    expected = FRAME.groupby(["left", "late"]).size() / N
    np.testing.assert_allclose(shares, expected, atol=2 / len(rows))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"target": ["cost", "cost"]}, "expected different names; got 'cost', 'cost'"),
        ({"target": []}, "at least 1"),
        ({"target": ["cost", "size"], "task": "quantile"}, "expected one column for task: quantile; got cost, size"),
        ({"drop": ["size"]}, "drop: 'size' is the target and cannot be listed here"),
        ({"weight": "size"}, "weight: 'size' is the target; choose another column"),
        ({"positive": 1}, "positive: expected the label of each target, as in positive: {cost: LABEL}"),
        ({"positive": {"left": "yes"}}, "positive: 'left' is not a target; the targets are cost, size"),
        ({"models": ["best"]}, "best learns one target; there are 2: list the models to compare"),
        ({"features": [{"generate": {}}]}, "it chooses features for one target; there are 2: remove it"),
        ({"models": [{"mlp": {"class_weight": "balanced"}}]}, "class_weight is for one target; mlp learns 2 together"),
        ({"models": [JOINT], "cluster": {"scheduler": "local"}}, "multi_output_tree trains in one process"),
        ({"models": [with_joint(monotone_constraints={"a": 1})]}, "monotone_constraints: multi_output_tree has none"),
        ({"target": "cost", "models": [JOINT]}, "multi_strategy: multi_output_tree is for several targets"),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_contradictions_are_refused_before_any_row_is_read(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(gp.ConfigError) as raised:
        pipeline(list(NUMBERS), **{"drop": None} | settings)
    assert expected in str(raised.value) + " ".join(map(str, raised.value.problems))


@pytest.mark.parametrize(
    ("targets", "settings", "expected"),
    [
        (
            ["cost", "left"],
            {},
            "several targets must be all numbers, or all have classes .regression: cost is a number; binary: left is",
        ),
        (["cost", "absent"], {}, "absent"),
        (["left", "late"], {"positive": {"late": "yes"}}, "the positive label 'yes' is not a value of 'late'"),
        (["cost", "size"], {"evaluate": {"metrics": ["roc_auc"]}}, "not available for the task regression: roc_auc"),
        (["left", "risk"], {"evaluate": {"cost": {"false_positive": 1, "false_negative": 2}}}, "cost is for the task"),
        (["left", "late"], {"models": ["ridge"]}, "ridge cannot learn this task"),
    ],
    ids=str,
)
def test_targets_that_do_not_fit_are_refused_by_name(
    targets: list[str], settings: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    with pytest.raises(gp.GpupipeError, match=expected):
        pipeline(targets, **settings).run(tmp_path / "run")


def test_a_positive_label_of_each_target_decides_its_order(tmp_path: Path) -> None:
    run = pipeline(["left", "late"], positive={"left": "no"}).run(tmp_path / "run")
    assert [goal.labels for goal in run.goal.targets] == [("yes", "no"), (0, 1)]


@pytest.mark.parametrize(
    ("targets", "more"),
    [
        (["left", "risk"], {}),  # one with three classes
        (["left", "late"], {"features": [{"target_encode": "plan"}, {"encode": "part"}]}),  # a categorical column
    ],
    ids=["classes", "categories"],
)
@pytest.mark.filterwarnings("ignore")
def test_joint_trees_that_cannot_learn_are_refused_before_any_model_is_trained(
    targets: list[str], more: dict[str, Any], tmp_path: Path
) -> None:
    split = {"test_size": 0.25}
    if targets == ["left", "late"] and tuple(map(int, xgboost.__version__.split(".")[:2])) >= (3, 4):
        pytest.skip("this XGBoost has joint trees on categorical columns")
    one = pipeline(targets, models=["logistic_regression", JOINT], split=split, **more)
    for use in (lambda: check_data(one.config), one.plan, lambda: one.run(tmp_path / "run")):
        with pytest.raises(gp.ConfigError, match="multi_strategy: multi_output_tree"):
            use()
    assert not list(tmp_path.glob("**/*.ubj"))


def test_models_that_are_ordered_by_units_are_warned_about(tmp_path: Path) -> None:
    run = pipeline(list(NUMBERS), evaluate={"metrics": ["rmse"], "importance": False}).run(tmp_path / "run")
    (note,) = run.timeline.all_notes("warning")
    assert note.text.startswith("rmse is a mean over targets in their units")


def test_a_row_needs_all_targets(tmp_path: Path) -> None:
    frame = FRAME.copy()
    frame.loc[:599, "cost"], frame.loc[600:, "size"] = np.nan, np.nan
    with pytest.raises(gp.DataError, match="no row has a value of every target; missing: 'cost' in 600 rows, 'size'"):
        pipeline(list(NUMBERS), frame).run(tmp_path / "run")
    frame = FRAME.assign(left=FRAME["left"].where(FRAME["risk"] != "high"))
    assert pipeline(list(MIXED), frame).run(tmp_path / "classes").goal.targets[1].labels == ("low", "mid")


def test_class_weights_are_those_of_the_labels_of_each_target(tmp_path: Path) -> None:
    weights = {"yes": 3, "high": 2}
    run = pipeline(list(MIXED), models=[{"xgboost": {**TREES["xgboost"], "class_weight": weights}}]).run(tmp_path / "b")
    for name, own in zip(MIXED, ({"yes": 3}, {"high": 2}), strict=True):
        drop = [other for other in TARGETS if other != name]
        model = {"xgboost": {**TREES["xgboost"], "class_weight": own}}
        alone = pipeline(name, models=[model], drop=drop).run(tmp_path / name)
        assert metrics_of(run)["models"]["xgboost"][f"log_loss[{name}]"] == alone.metrics["log_loss"]
    with pytest.raises(gp.ConfigError, match="class_weight has the unknown class 'yse'"):
        pipeline(list(MIXED), models=[{"xgboost": {"class_weight": {"yse": 3}}}]).run(tmp_path / "no")


def test_outputs_with_the_same_name_are_refused(tmp_path: Path) -> None:
    frame = FRAME[["a", "part"]].assign(p=np.where(FRAME["a"] > 0, "q_r", "s"), p_q=np.where(FRAME["b"] > 0, "r", "s"))
    with pytest.raises(gp.ConfigError, match="'p' and 'p_q' would both have the output 'probability_p_q_r'"):
        gp.Pipeline(frame, target=["p", "p_q"], models=[TREES], split=SPLIT).run(tmp_path / "run")

"""Differences of metrics on the same test rows, from predictions that are made here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, mean_absolute_error, roc_auc_score

from gpupipe.metrics.settings import Costs
from gpupipe.model_parts.goal import Goal
from gpupipe.pipeline.comparison.paired_metrics import TestRows, paired_differences

N = 900
BINARY = Goal("binary", "left", (False, True))
THREE = Goal("multiclass", "size", (1, 11, 21), label_type="uint8")
PRICE = Goal("regression", "price")
BOTH = Goal("multioutput", targets=(Goal("regression", "price"), Goal("regression", "weight")))


def errors(noise: float) -> np.ndarray:
    return np.random.default_rng(round(100 * noise)).normal(scale=noise, size=N)


def binary(noise: float) -> pd.DataFrame:
    truth = np.random.default_rng(3).random(N) < 0.3
    p = 1 / (1 + np.exp(-(2 * truth - 1 + errors(noise))))
    return pd.DataFrame({"row": np.arange(N) * 3, "target": truth, "prediction": p >= 0.4,
                         "probability_false": 1 - p, "probability_true": p})  # fmt: skip


def numeric(noise: float) -> pd.DataFrame:
    truth = np.random.default_rng(3).normal(size=N)
    return pd.DataFrame({"row": np.arange(N), "target": truth, "prediction": truth + errors(noise)})


def scores(rows: TestRows, *names: str) -> dict[str, float]:
    return rows.score([*names], np.arange(len(rows.rows)))


def test_metrics_are_those_of_scikit_learn_and_of_the_recorded_labels() -> None:
    frame = binary(1.0)
    found = scores(TestRows(frame.sample(frac=1, random_state=0), BINARY), "roc_auc", "log_loss", "accuracy")
    assert found["roc_auc"] == pytest.approx(roc_auc_score(frame["target"], frame["probability_true"]))
    assert found["log_loss"] == pytest.approx(log_loss(frame["target"], frame["probability_true"]))
    assert found["accuracy"] == (frame["target"] == frame["prediction"]).mean()  # its threshold is 0.4


def test_metrics_under_folds_are_means_over_the_folds() -> None:
    frame = binary(1.0).assign(fold=np.arange(N) % 3 + 1)
    each = [roc_auc_score(part["target"], part["probability_true"]) for _, part in frame.groupby("fold")]
    assert scores(TestRows(frame, BINARY), "roc_auc") == {"roc_auc": pytest.approx(np.mean(each))}


def test_the_interval_of_a_mean_is_that_of_the_differences_of_its_rows() -> None:
    one, two = numeric(1.0), numeric(1.1)
    pair = [TestRows(frame, PRICE) for frame in (one, two)]
    found = paired_differences(pair[0], pair[1], *(scores(rows, "mae", "r2") for rows in pair))
    errors = [np.abs(frame["target"] - frame["prediction"]) for frame in (one, two)]
    expected = mean_absolute_error(two["target"], two["prediction"]) - errors[0].mean()
    half = 1.96 * (errors[1] - errors[0]).std() / np.sqrt(N)
    assert found["mae"]["difference"] == pytest.approx(expected)
    assert found["mae"]["high"] - expected == pytest.approx(half, rel=0.2) == expected - found["mae"]["low"]
    assert set(found) == {"mae", "r2"}


def test_equal_predictions_differ_by_nothing() -> None:
    pair = [TestRows(binary(1.0), BINARY)] * 2
    metrics = scores(pair[0], "roc_auc", "f1")
    found = paired_differences(pair[0], pair[1], metrics, metrics)
    assert list(found.values()) == [{"difference": 0.0, "low": 0.0, "high": 0.0}] * 2


def test_groups_widen_the_interval() -> None:
    frames = [numeric(noise).loc[lambda frame: frame.index.repeat(5)] for noise in (1.0, 1.3)]
    widths = []
    for group in ("shop", None):
        pair = [TestRows(f.assign(row=np.arange(5 * N), shop=np.arange(5 * N) // 5), PRICE, group) for f in frames]
        found = paired_differences(pair[0], pair[1], *(scores(rows, "rmse") for rows in pair))["rmse"]
        widths.append(found["high"] - found["low"])
    assert widths[0] / widths[1] == pytest.approx(np.sqrt(5), rel=0.3)


def test_a_metric_that_the_predictions_do_not_reproduce_has_no_interval() -> None:
    pair = [
        TestRows(binary(noise), BINARY, costs=Costs(false_positive=noise, false_negative=5)) for noise in (1.0, 1.2)
    ]
    recorded = [scores(rows, "roc_auc", "f1", "cost") for rows in pair]
    recorded[1]["f1"] += 0.01  # weighted
    recorded[0]["of_a_package"] = recorded[1]["of_a_package"] = 1.0
    assert set(paired_differences(pair[0], pair[1], *recorded)) == {"roc_auc"}


def test_classes_of_any_type_and_several_targets_are_read() -> None:
    generator = np.random.default_rng(2)
    codes = generator.integers(3, size=N)
    p = generator.dirichlet([1, 1, 1], size=N)
    labels = np.array(THREE.labels, "uint8")
    frame = pd.DataFrame({"row": range(N), "target": labels[codes], "prediction": labels[p.argmax(axis=1)]})
    frame[["probability_1", "probability_11", "probability_21"]] = p
    assert scores(TestRows(frame, THREE), "accuracy") == {"accuracy": (codes == p.argmax(axis=1)).mean()}
    two = numeric(1.0).rename(columns={"target": "target_price", "prediction": "prediction_price"})
    two = two.assign(target_weight=two["target_price"], prediction_weight=two["target_price"])
    assert scores(TestRows(two, BOTH), "mae")["mae[weight]"] == 0


def swapped(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(target=~frame["target"])


@pytest.mark.parametrize(
    ("change", "goal", "why"),
    [
        (lambda frame: frame.sample(frac=1), BINARY, ""),
        (lambda frame: frame.assign(row=frame["row"] + 3), BINARY, "900 and 900, of which 899 are shared"),
        (lambda frame: frame[:500], BINARY, "900 and 500, of which 500 are shared"),
        (swapped, BINARY, "the targets of the test rows differ"),
        (lambda frame: frame.assign(fold=1 + frame.index % 2), BINARY, "the folds differ"),
        (lambda frame: frame, Goal("binary", "other", (False, True)), "the tasks or the targets differ"),
    ],
)
def test_runs_are_paired_only_on_the_same_rows(
    change: Callable[[pd.DataFrame], pd.DataFrame], goal: Goal, why: str
) -> None:
    found = TestRows(binary(1.0), BINARY).obstacle(TestRows(change(binary(1.2)), goal))
    assert (why in found) if why else not found
